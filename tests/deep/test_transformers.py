"""The callback of the Trainer of transformers against plain loops, with adapters and resumed runs."""

import runpy
from functools import partial
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import forgetless.torch as flt
from forgetless.torch.trainers import TransformersCallback

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and accelerate
FISHER = partial(flt.fisher, max_samples=4)
MECHANISMS = {
    "EWC": lambda: [flt.Proximal(0.5, FISHER)],
    "all": lambda: [flt.Proximal(0.5, flt.si), flt.StepSize(flt.inverse()), flt.Average(3), flt.Merge(1.5)],
}


class Tokens(Dataset):
    def __init__(self, task, n=8, length=6):
        self.rows = torch.randint(11, (n, length), generator=torch.Generator().manual_seed(task))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i], "attention_mask": torch.ones_like(self.rows[i])}


def language_model(lora):
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    if lora:
        model = get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))
    return model


def arguments(folder, **options):
    quiet = {"report_to": [], "disable_tqdm": True, "logging_strategy": "no", "save_strategy": "no"}
    size = {"per_device_train_batch_size": 2, "num_train_epochs": 1, "use_cpu": True, "dataloader_pin_memory": False}
    rate = {"learning_rate": 0.01, "lr_scheduler_type": "constant", "max_grad_norm": 0.0, "seed": 0}
    return TrainingArguments(str(folder), **quiet | size | rate | options)


def fit(model, continual, task, folder, *callbacks, resume=None, **options):
    callbacks = [TransformersCallback(continual), *callbacks]
    trainer = Trainer(model, arguments(folder, **options), train_dataset=Tokens(task), callbacks=callbacks)
    trainer.train(resume_from_checkpoint=resume)


def weights(model):
    return torch.cat([p.detach().ravel() for p in model.parameters() if p.requires_grad])


class Recorder(TrainerCallback):
    """Records the gradients of every step, so that a plain loop can repeat it whatever the trainer does to the loss."""

    def __init__(self):
        self.steps = []

    def on_pre_optimizer_step(self, args, state, control, model, **_):
        self.steps.append([p.grad.clone() for p in model.parameters() if p.requires_grad])

    def on_train_end(self, args, state, control, train_dataloader, **_):
        self.data = train_dataloader


@pytest.mark.parametrize("lora", [False, True], ids=["all weights", "adapters"])
@pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_trainers_are_a_plain_loop(tmp_path, make, lora):
    """A Trainer and an optimizer for every task, wrapped by accelerate."""
    model, recorded = language_model(lora), []
    continual = flt.Continual(model, make())
    assert all("lora" in name for name in continual.params) is lora
    for task in range(3):
        recorded.append(Recorder())
        fit(model, continual, task, tmp_path, recorded[-1])
    assert continual.task == 4
    assert [len(recorder.steps) for recorder in recorded] == [4, 4, 4]
    twin = language_model(lora)
    again, params = flt.Continual(twin, make()), [p for p in twin.parameters() if p.requires_grad]
    for recorder in recorded:
        optimizer = torch.optim.AdamW(params, lr=0.01, weight_decay=0.0)
        for step in recorder.steps:
            for p, gradient in zip(params, step, strict=True):
                p.grad = gradient
            optimizer.step()
        again.next_task(recorder.data)
    with continual.evaluation(), again.evaluation():
        torch.testing.assert_close(weights(model), weights(twin), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lora", [False, True], ids=["all weights", "adapters"])
def test_a_run_resumes_from_a_checkpoint(tmp_path, lora):
    """Accumulated gradients, a checkpoint within the second task, a pretrained model, another process's objects."""
    options = {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 1}
    mechanisms = lambda: [flt.Proximal(0.5, FISHER), flt.StepSize(flt.inverse(2)), flt.Average(3)]  # noqa: E731
    model = language_model(lora)
    continual = flt.Continual(model, mechanisms(), pretrained=[{"input_ids": Tokens(5).rows}])
    fit(model, continual, 0, tmp_path / "0", **options)
    fit(model, continual, 1, tmp_path / "1", **options, save_strategy="steps", save_steps=2)
    resumed, checkpoint = language_model(lora), tmp_path / "1" / "checkpoint-2"
    again = flt.Continual(resumed, mechanisms())
    with pytest.raises(FileNotFoundError, match=r"resumes at step 2 without .*continual.pt"):
        fit(resumed, again, 1, tmp_path / "elsewhere", resume=str(checkpoint), **options)
    fit(resumed, again, 1, tmp_path / "1", resume=str(checkpoint), **options)
    assert again.task == continual.task == 4
    assert torch.equal(weights(resumed), weights(model))


@pytest.mark.parametrize("name", ["lora_tasks", "trl_tasks"])
def test_the_examples_run(name, capsys):
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / f"{name}.py"), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "recipe" not in line]
    means = {" ".join(row[:-1]): float(row[-1]) for row in rows if row[-1].replace(".", "").isdigit()}
    assert len(means) >= 3
    nothing = next(mean for row, mean in means.items() if row.startswith("nothing"))
    assert max(means.values()) == nothing
