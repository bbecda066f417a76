"""A language model with LoRA adapters, fine-tuned on one kind of text after another by the Trainer
of transformers.

Needs ``pip install transformers==5.22.2 accelerate==1.15.0 peft==0.21.2``. The model is small,
reads bytes and is pretrained here on the prose of Python's manual, so that nothing is downloaded.
Nothing is tuned. A pretrained model counts as the first task; its importances are those on the text
of its pretraining.
"""

import inspect
import json
import tempfile
from functools import partial
from html import entities
from pydoc_data import topics

import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments

import forgetless.torch as flt
from forgetless.torch.trainers import TransformersCallback

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


FISHER = partial(flt.fisher, max_samples=64)
RECIPES = {
    "nothing": [],
    "Proximal(1/8, fisher)": [flt.Proximal(1 / 8, FISHER)],
    "Proximal(1/8, mas)": [flt.Proximal(1 / 8, partial(flt.mas, max_samples=64))],
    "Average(80)": [flt.Average(80)],
    "Merge(1)": [flt.Merge(1.0)],
}


def main():
    """Print bits per byte of all texts after the last task."""
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=256, n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4)
    pretrained = GPT2LMHeadModel(config)
    domains = texts()
    train(pretrained, domains["prose"][0], 300, 2e-3)
    old = [{"input_ids": torch.stack(Windows(domains["prose"][0], 64, seed=3).rows)}]
    print("recipe, bits per byte".ljust(24), *(name.rjust(8) for name in (*domains, "mean")))
    for recipe, mechanisms in RECIPES.items():
        model = adapted(pretrained)
        continual = flt.Continual(model, mechanisms, pretrained=old)
        for name in list(domains)[1:]:
            train(model, domains[name][0], 80, 5e-3, [TransformersCallback(continual)])
        with continual.evaluation():
            losses = [bits(model, text) for _, text in domains.values()]
        print(recipe.ljust(24), *(f"{loss:8.2f}" for loss in (*losses, sum(losses) / len(losses))))


if __name__ == "__main__":
    main()
