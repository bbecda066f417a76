"""The callback of the Trainer of transformers against plain loops, with adapters and resumed runs."""

import runpy
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainerState, TrainingArguments

import forgetless.torch as flt
from support.deep.processes import two_processes

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers and accelerate

MECHANISMS = {
    "proximal": {"proximal": 5.0},
    "step_size": {"step_size": "linear", "n_tasks": 3},
    "moving": {"average": ("moving", 3)},
    "all": {"proximal": 0.5, "step_size": "inverse", "average": "merge", "start": True},
}


class Tokens(Dataset):
    def __init__(self, task, n=8, length=6):
        self.rows = torch.randint(11, (n, length), generator=torch.Generator().manual_seed(task))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i], "attention_mask": torch.ones_like(self.rows[i])}


def language_model(lora=False):
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    model = GPT2LMHeadModel(config)
    if lora:
        model = get_peft_model(model, LoraConfig(r=2, target_modules=["c_attn"], lora_dropout=0.0))
    return model


def arguments(tmp_path, **options):
    return TrainingArguments(
        output_dir=str(tmp_path),
        **{
            "per_device_train_batch_size": 2,
            "num_train_epochs": 1,
            "learning_rate": 0.01,
            "lr_scheduler_type": "constant",
            "report_to": [],
            "save_strategy": "no",
            "use_cpu": True,
            "disable_tqdm": True,
            "seed": 0,
            "max_grad_norm": 0.0,
            "dataloader_pin_memory": False,
            "logging_strategy": "no",
        }
        | options,
    )


def weights(model):
    return torch.cat([p.detach().ravel() for p in model.parameters() if p.requires_grad])


class Recorder(TrainerCallback):
    """Records the gradients of every step, so that a plain loop can repeat it whatever the trainer does to the loss."""

    def __init__(self):
        self.gradients = []

    def on_pre_optimizer_step(self, args, state, control, model, **_):
        self.gradients.append([p.grad.clone() for p in model.parameters() if p.requires_grad])


def plain(recorded, options, lora):
    """Repeat all tasks with a new optimizer each, and the recorded gradients."""
    model, continual = language_model(lora), None
    params = [p for p in model.parameters() if p.requires_grad]
    for gradients in recorded:
        optimizer = torch.optim.AdamW(params, lr=0.01, weight_decay=0.0)
        if continual is None:
            continual = flt.Continual(model, optimizer, **options)
        else:
            continual.grow(optimizer=optimizer)
        for step in gradients:
            for p, gradient in zip(params, step, strict=True):
                p.grad = gradient
            optimizer.step()
        continual.next_task()
    with continual.averaged_weights():
        return weights(model)


@pytest.mark.parametrize("lora", [False, True], ids=["all weights", "adapters"])
@pytest.mark.parametrize("options", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_trainers_are_a_plain_loop(tmp_path, options, lora):
    """A Trainer and an optimizer for every task, wrapped by accelerate."""
    model, callback, recorded = language_model(lora), flt.transformers.ContinualCallback(**options), []
    for task in range(3):
        recorder, args = Recorder(), arguments(tmp_path, optim="adamw_torch")
        Trainer(model=model, args=args, train_dataset=Tokens(task), callbacks=[callback, recorder]).train()
        recorded.append(recorder.gradients)
    assert callback.continual.task == 4
    assert [len(gradients) for gradients in recorded] == [4, 4, 4]
    with callback.continual.averaged_weights():
        torch.testing.assert_close(weights(model), plain(recorded, options, lora), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lora", [False, True], ids=["all weights", "adapters"])
def test_importances_of_a_language_model(tmp_path, lora):
    def fisher(model, loader):
        return flt.fisher(model, loader, labels="sampled", n_samples=4)

    changes = []
    for strength in (0.0, 1e6):
        model, callback = language_model(lora), flt.transformers.ContinualCallback(fisher, proximal=strength)
        for task in range(2):
            before = weights(model)
            Trainer(model=model, args=arguments(tmp_path), train_dataset=Tokens(task), callbacks=[callback]).train()
        changes.append(float((weights(model) - before).norm()))
    assert changes[1] < 0.5 * changes[0]
    state = callback.continual.anchor.state_dict()
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert set(state["omega"]) == trained
    assert all(bool((value >= 0).all()) for value in state["omega"].values())
    assert sum(float(value.sum()) for value in state["omega"].values()) > 0


def test_a_pretrained_model_has_the_importance_of_the_first_data(tmp_path):
    seen = []

    def counting(model, loader):  # in powers of ten, so that a mean tells which ones it has
        seen.append(next(iter(loader))["input_ids"][0].tolist())
        return {n: torch.full_like(p, 10.0 ** len(seen)) for n, p in model.named_parameters() if p.requires_grad}

    model, callback = language_model(True), flt.transformers.ContinualCallback(counting, proximal=1.0, start=True)
    for task in range(2):
        Trainer(model=model, args=arguments(tmp_path), train_dataset=Tokens(task), callbacks=[callback]).train()
    assert [any(row == each.tolist() for each in Tokens(t).rows) for t, row in zip((0, 0, 1), seen, strict=True)] == [
        True
    ] * 3
    assert all(bool((omega == 370.0).all()) for omega in callback.continual.state_dict()["anchor"]["omega"].values())


def test_every_node_writes_its_state(tmp_path):
    """With save_on_each_node a checkpoint is also where the process is not the first of the world."""
    callback = flt.transformers.ContinualCallback(average="mean")
    Trainer(model=language_model(), args=arguments(tmp_path), train_dataset=Tokens(0), callbacks=[callback]).train()
    (tmp_path / "checkpoint-4").mkdir()
    state = TrainerState(global_step=4, is_world_process_zero=False)
    for args, there in ((SimpleNamespace(should_save=False), False), (SimpleNamespace(should_save=True), True)):
        args.output_dir = str(tmp_path)
        callback.on_save(args, state, None)
        assert (tmp_path / "checkpoint-4" / "continual.pt").exists() is there


def test_the_example_runs(capsys):
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "lora_tasks.py"), run_name="__main__")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    means = {" ".join(row[:-5]): float(row[-1]) for row in rows[1:]}
    assert max(means, key=means.get) == "no mechanism"


def test_a_run_resumes_from_a_checkpoint(tmp_path):
    """Accumulated gradients, a checkpoint within the second task, another process's objects."""
    options = MECHANISMS["all"]
    accumulate = {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 1}
    model, callback, states = language_model(), flt.transformers.ContinualCallback(**options), []
    for task, saving in enumerate(({}, {"save_strategy": "steps", "save_steps": 2})):
        args = arguments(tmp_path / str(task), **accumulate, **saving)
        Trainer(model=model, args=args, train_dataset=Tokens(task), callbacks=[callback]).train()
        states.append(callback.state_dict())
    whole = weights(model)
    resumed, again = language_model(), flt.transformers.ContinualCallback(**options)
    args = arguments(tmp_path / "1", **accumulate, save_strategy="no")
    trainer = Trainer(model=resumed, args=args, train_dataset=Tokens(1), callbacks=[again])
    trainer.train(resume_from_checkpoint=str(tmp_path / "1" / "checkpoint-2"))
    assert again.continual.task == 3
    torch.testing.assert_close(weights(resumed), whole, rtol=1e-5, atol=1e-6)
    # The state of the checkpoint counts, whatever was loaded by hand.
    resumed, again = language_model(), flt.transformers.ContinualCallback(**options)
    again.load_state_dict(states[0])
    Trainer(model=resumed, args=args, train_dataset=Tokens(1), callbacks=[again]).train(
        str(tmp_path / "1" / "checkpoint-2")
    )
    torch.testing.assert_close(weights(resumed), whole, rtol=1e-5, atol=1e-6)
    # Into another folder the state is given by hand, and its absence is an error.
    checkpoint = tmp_path / "1" / "checkpoint-2"
    args = arguments(tmp_path / "elsewhere", **accumulate, save_strategy="no")
    moved, third = language_model(), flt.transformers.ContinualCallback(**options)
    trainer = Trainer(model=moved, args=args, train_dataset=Tokens(1), callbacks=[third])
    with pytest.raises(FileNotFoundError, match=r"resumes at step 2 without .*elsewhere.*load_state_dict"):
        trainer.train(resume_from_checkpoint=str(checkpoint))
    third.load_state_dict(torch.load(checkpoint / "continual.pt", weights_only=True))
    Trainer(model=moved, args=args, train_dataset=Tokens(1), callbacks=[third]).train(str(checkpoint))
    torch.testing.assert_close(weights(moved), whole, rtol=1e-5, atol=1e-6)


def distributed():
    """Two tasks on two processes, with adapters and importances of both."""
    model = language_model(True)
    callback = flt.transformers.ContinualCallback(
        lambda model, loader: flt.mean_over_processes(flt.fisher(model, loader, labels="sampled", n_samples=4)),
        proximal=0.5,
        average="merge",
    )
    sizes = []
    for task in range(2):
        with tempfile.TemporaryDirectory() as folder:
            args = arguments(folder, ddp_backend="gloo")
            trainer = Trainer(model=model, args=args, train_dataset=Tokens(task), callbacks=[callback])
            sizes.append((args.world_size, trainer.train().global_step))
    assert sizes == [(2, 2), (2, 2)]  # 8 rows: two steps of two rows on each process
    return weights(model)


def test_two_processes_keep_the_same_weights():
    first, second = two_processes("distributed", "deep.test_transformers")
    assert torch.equal(first, second)
    assert not torch.equal(first, weights(language_model(True)))


def test_a_compiled_model(tmp_path):
    results = []
    for options in ({}, {"torch_compile": True, "torch_compile_backend": "aot_eager"}):
        model, callback = language_model(), flt.transformers.ContinualCallback(**MECHANISMS["all"])
        for task in range(2):
            args = arguments(tmp_path, **options)
            Trainer(model=model, args=args, train_dataset=Tokens(task), callbacks=[callback]).train()
        results.append(weights(model))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
