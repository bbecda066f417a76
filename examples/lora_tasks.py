"""A language model with LoRA adapters, fine-tuned on one kind of text after another by the Trainer
of transformers.

Needs ``pip install transformers==5.22.2 accelerate==1.15.0 peft==0.21.2``. The model is small,
reads bytes and is pretrained here on the prose of Python's manual, so that nothing is downloaded.
The strengths were chosen by hand; ``flt.advise`` searches them.
"""

import inspect
import json
import tempfile
from contextlib import nullcontext
from html import entities
from pydoc_data import topics

import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments

import forgetless.torch as flt

LENGTH = 64


class Windows(Dataset):
    """Windows of a text at random places, as bytes."""

    def __init__(self, text, n, seed):
        data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).long()
        starts = torch.randint(
            len(data) - LENGTH, (n,), generator=torch.Generator().manual_seed(seed)
        )
        self.rows = [data[i : i + LENGTH] for i in starts]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {
            "input_ids": self.rows[i],
            "labels": self.rows[i],
            "attention_mask": torch.ones_like(self.rows[i]),
        }


def texts():
    """Return the text of pretraining and those of three tasks, each as a part to train on and one
    to evaluate.
    """
    prose = "\n".join(topics.topics.values())
    code = (
        inspect.getsource(json.decoder)
        + inspect.getsource(json.encoder)
        + inspect.getsource(inspect)
    )
    names = "".join(f"<li>&{name} {ord(char[0])}</li>\n" for name, char in entities.html5.items())
    g = torch.Generator().manual_seed(0)
    numbers = torch.randint(100, (4000, 2), generator=g).tolist()
    sums = "".join(f"{a} + {b} = {a + b}\n" for a, b in numbers)
    whole = {"prose": prose, "code": code, "html": names, "sums": sums}
    return {
        name: (text[: len(text) * 4 // 5], text[len(text) * 4 // 5 :])
        for name, text in whole.items()
    }


def train(model, text, n_steps, rate, callbacks=()):
    """Train on windows of one text."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=n_steps,
            per_device_train_batch_size=16,
            learning_rate=rate,
            lr_scheduler_type="constant",
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            seed=0,
        )
        data = Windows(text, 16 * n_steps, seed=1)
        trainer = Trainer(
            model=model, args=arguments, train_dataset=data, callbacks=list(callbacks)
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


@torch.no_grad()
def bits(model, text):
    """Return the bits per byte on windows of a text."""
    model.eval()
    rows = torch.stack(Windows(text, 64, seed=2).rows).to(model.device)
    return model(input_ids=rows, labels=rows).loss.item() / 0.6931


def adapted(pretrained):
    """Return the pretrained model with new adapters; each layer gets two small matrices, which
    alone are trained.
    """
    model = GPT2LMHeadModel(pretrained.config)
    model.load_state_dict(pretrained.state_dict())
    torch.manual_seed(0)
    return get_peft_model(
        model, LoraConfig(r=8, target_modules=["c_attn", "c_fc", "c_proj"], fan_in_fan_out=True)
    )


def importance(model, loader):
    """Return the Fisher information of the adapters."""
    return flt.fisher(model, loader, labels="sampled", n_samples=64)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=256, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4)
    pretrained = GPT2LMHeadModel(config)
    domains = texts()
    train(pretrained, domains["prose"][0], 300, 2e-3)
    # start=True: the pretrained model counts as the first task; its importances are those on the
    # first data.
    ways = {
        "no mechanism": None,
        "EWC": {"proximal": 3.0, "start": True},
        "moving average": {"average": ("moving", 240)},
        "merging": {"average": "merge", "start": True},
    }
    print("bits per byte".ljust(16), *(name.rjust(8) for name in (*domains, "mean")))
    for way, options in ways.items():
        model = adapted(pretrained)
        callbacks = []
        if options:
            weights = importance if "proximal" in options else None
            callbacks.append(flt.transformers.ContinualCallback(weights, **options))
        for name in list(domains)[1:]:
            train(model, domains[name][0], 80, 5e-3, callbacks)
        with callbacks[0].continual.averaged_weights() if callbacks else nullcontext():
            losses = [bits(model, text) for _, text in domains.values()]
        print(way.ljust(16), *(f"{loss:8.2f}" for loss in (*losses, sum(losses) / len(losses))))
