"""A language model with LoRA adapters, fine-tuned on two kinds of text by the SFTTrainer of trl.

Needs ``pip install transformers==5.22.2 accelerate==1.15.0 peft==0.21.2 trl==1.16.0``. The callback
is that of the Trainer of transformers. The model is small and its tokenizer knows bytes only, so
that nothing is downloaded.
"""

import inspect
import tempfile
from functools import partial
from pydoc_data import topics

import datasets
import torch
import transformers
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, PrinterCallback
from trl import SFTConfig, SFTTrainer

import forgetless.torch as flt
from forgetless.torch.trainers import TransformersCallback

LENGTH = 64


def tokenizer():
    """Return a tokenizer with one token for every byte, and one that ends a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bare = Tokenizer(models.BPE(vocab={byte: i for i, byte in enumerate(alphabet)}, merges=[]))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=bare, eos_token="<end>", pad_token="<end>")


def pieces(text, n=400):
    """Return the first pieces of a text, as trl wants them."""
    return datasets.Dataset.from_dict({"text": [text[i * 60 : i * 60 + 60] for i in range(n)]})


def train(model, tokens, data, n_steps, rate, callbacks=()):
    """Fine-tune on one kind of text."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = SFTConfig(
            output_dir=folder,
            max_steps=n_steps,
            per_device_train_batch_size=16,
            learning_rate=rate,
            lr_scheduler_type="constant",
            max_length=LENGTH,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            gradient_checkpointing=False,
            bf16=False,
            dataloader_pin_memory=False,
            seed=0,
        )
        trainer = SFTTrainer(
            model=model,
            args=arguments,
            train_dataset=data,
            processing_class=tokens,
            callbacks=list(callbacks),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


def ids(tokens, data):
    """Return the first 58 bytes of every piece, as numbers."""
    return torch.tensor([tokens(text)["input_ids"][:58] for text in data["text"]])


@torch.no_grad()
def bits(model, tokens, data):
    """Return the bits per byte on pieces of text."""
    model.eval()
    rows = ids(tokens, data).to(model.device)
    return model(input_ids=rows, labels=rows).loss.item() / 0.6931


def main():
    """Print bits per byte of all texts after the last task."""
    transformers.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    torch.manual_seed(0)
    tokens = tokenizer()
    config = GPT2Config(vocab_size=len(tokens), n_positions=LENGTH, n_embd=64, n_layer=2, n_head=4)
    pretrained = GPT2LMHeadModel(config)
    sums = "".join(f"{a} + {b} = {a + b}\n" for a in range(60) for b in range(60))
    texts = {"prose": "\n".join(topics.topics.values()), "code": inspect.getsource(inspect)}
    data = {name: pieces(text) for name, text in (texts | {"sums": sums}).items()}
    train(pretrained, tokens, data["prose"], 200, 2e-3)
    old = [{"input_ids": ids(tokens, data["prose"])[:64]}]
    recipes = {
        "nothing": [],
        "Proximal(1/8, fisher)": [flt.Proximal(1 / 8, partial(flt.fisher, max_samples=64))],
        "Merge(1)": [flt.Merge(1.0)],
    }
    print("recipe, bits per byte".ljust(24), *(name.rjust(8) for name in (*data, "mean")))
    for recipe, mechanisms in recipes.items():
        model = GPT2LMHeadModel(config)
        model.load_state_dict(pretrained.state_dict())
        torch.manual_seed(0)
        modules = ["c_attn", "c_fc", "c_proj"]
        model = get_peft_model(model, LoraConfig(r=8, target_modules=modules, fan_in_fan_out=True))
        continual = flt.Continual(model, mechanisms, pretrained=old)
        for name in ("code", "sums"):
            train(model, tokens, data[name], 60, 5e-3, [TransformersCallback(continual)])
        with continual.evaluation():
            losses = [bits(model, tokens, each) for each in data.values()]
        print(recipe.ljust(24), *(f"{loss:8.2f}" for loss in (*losses, sum(losses) / len(losses))))


if __name__ == "__main__":
    main()
