"""The callback of Lightning against plain loops: the same weights, bit for bit."""

import os
import tempfile

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import forgetless.torch as flt
from support.deep.networks import batches, mlp, train, weights
from support.deep.processes import two_processes

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own: workers of loaders, folders, missing loggers
MECHANISMS = {
    "proximal": {"proximal": 5.0},
    "step_size": {"step_size": "linear", "n_tasks": 3},
    "moving": {"average": ("moving", 5)},
    "all": {"proximal": 0.5, "step_size": "inverse", "average": "merge", "start": True},
}


class Module(LightningModule):
    def __init__(self, lr=0.05):
        super().__init__()
        self.net, self.lr, self.validated = mlp(), lr, []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        return functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.validated.append(weights(self.net))

    def test_step(self, batch, index):
        self.validated.append(weights(self.net))

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=self.lr)


def loader(task, n=4):
    x, y = (torch.cat(parts) for parts in zip(*batches(n, seed=task), strict=True))
    return DataLoader(TensorDataset(x, y), batch_size=16)


def trainer(tmp_path, *callbacks, **options):
    return Trainer(
        default_root_dir=tmp_path,
        callbacks=list(callbacks),
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"enable_checkpointing": False, "max_epochs": 1} | options,
    )


def plain(options, tasks=3, accumulate=1, importance=None):
    net = mlp()
    continual = None
    for task in range(tasks):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        if continual is None:
            continual = flt.Continual(net, optimizer, **options)
        else:
            continual.grow(optimizer=optimizer)
        data = batches(4, seed=task)
        for i in range(0, 4, accumulate):
            optimizer.zero_grad()
            for x, y in data[i : i + accumulate]:
                (functional.cross_entropy(net(x), y) / accumulate).backward()
            optimizer.step()
        continual.next_task(None if importance is None else importance(net, loader(task)))
    with continual.averaged_weights():
        return weights(net)


@pytest.mark.parametrize("options", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_fits_are_a_plain_loop(tmp_path, options):
    """A new optimizer for every fit, as Lightning makes it, is followed."""
    module, callback = Module(), flt.lightning.ContinualCallback(**options)
    for task in range(3):
        trainer(tmp_path, callback).fit(module, loader(task))
    with callback.continual.averaged_weights():
        assert torch.equal(weights(module.net), plain(options))
    assert callback.continual.task == 4


def test_importances_and_accumulated_gradients(tmp_path):
    def fisher(model, data):
        return flt.fisher(model, data, n_samples=32)

    module, callback = Module(), flt.lightning.ContinualCallback(fisher, proximal=50.0)
    for task in range(2):
        trainer(tmp_path, callback, accumulate_grad_batches=2).fit(module, loader(task))
    assert callback.continual.anchor.state_dict()["weighted"]
    expected = plain({"proximal": 50.0}, 2, 2, fisher)
    assert torch.equal(weights(module.net), expected)


def test_a_fit_resumes_from_a_checkpoint(tmp_path):
    """Saved after the first of two epochs of the second task, in Lightning's own checkpoint."""
    options = MECHANISMS["all"]
    module, callback = Module(), flt.lightning.ContinualCallback(**options)
    trainer(tmp_path, callback).fit(module, loader(0))
    saver = ModelCheckpoint(dirpath=tmp_path, filename="{epoch}", save_top_k=-1)
    trainer(tmp_path, callback, saver, enable_checkpointing=True, max_epochs=2).fit(module, loader(1))
    whole = weights(module.net)
    module, callback = Module(), flt.lightning.ContinualCallback(**options)
    trainer(tmp_path, callback, max_epochs=2).fit(module, loader(1), ckpt_path=tmp_path / "epoch=0.ckpt")
    assert callback.continual.task == 3
    assert torch.equal(weights(module.net), whole)


def test_evaluations_use_averaged_weights(tmp_path):
    module, callback = Module(), flt.lightning.ContinualCallback(average="moving")
    fit = trainer(tmp_path, callback, num_sanity_val_steps=0)
    fit.fit(module, loader(0), loader(1, n=1))
    with callback.continual.averaged_weights():
        average = weights(module.net)
    assert torch.equal(module.validated[-1], average)
    assert not torch.equal(weights(module.net), average)
    fit.test(module, loader(1, n=1), verbose=False)
    assert torch.equal(module.validated[-1], average)


def test_mixed_precision_and_a_compiled_module(tmp_path):
    for options in ({"precision": "bf16-mixed"}, {}):
        module, callback = Module(), flt.lightning.ContinualCallback(**MECHANISMS["all"])
        if not options:
            module.net.compile(backend="aot_eager")
        for task in range(2):
            trainer(tmp_path, callback, **options).fit(module, loader(task))
        assert callback.continual.task == 3
        assert bool(torch.isfinite(weights(module.net)).all())


def distributed():
    """Two fits on two processes: each sees every second row of every task."""
    module = Module()
    callback = flt.lightning.ContinualCallback(
        lambda module, data: flt.mean_over_processes(flt.fisher(module, data, n_samples=16)),
        proximal=50.0,
        average=("merge", 1.0),
    )
    for task in range(2):
        x, y = loader(task).dataset[int(os.environ["RANK"]) :: 2]
        with tempfile.TemporaryDirectory() as folder:
            fit = trainer(folder, callback, strategy="ddp", devices=2, use_distributed_sampler=False)
            fit.fit(module, DataLoader(TensorDataset(x, y), batch_size=16))
    return weights(module.net)


def test_two_processes_keep_the_same_weights():
    """Those of one process with batches that are twice as large."""
    first, second = two_processes("distributed", "deep.test_lightning")
    assert torch.equal(first, second)
    net, continual = mlp(), None
    for task in range(2):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        if continual is None:
            continual = flt.Continual(net, optimizer, proximal=50.0, average=("merge", 1.0))
        else:
            continual.grow(optimizer=optimizer)
        x, y = loader(task).dataset.tensors
        train(net, optimizer, [(x[:32], y[:32]), (x[32:], y[32:])])
        continual.next_task(lambda x=x: flt.fisher(net, x[:32]))
    torch.testing.assert_close(first, weights(net), rtol=1e-4, atol=1e-5)


def test_two_optimizers_raise(tmp_path):
    class Two(Module):
        automatic_optimization = False

        def configure_optimizers(self):
            return [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in (self.net[0], self.net[2])]

    with pytest.raises(ValueError, match="needs a module with one optimizer, got 2"):
        trainer(tmp_path, flt.lightning.ContinualCallback(average="mean")).fit(Two(), loader(0))


def test_a_pretrained_module_has_the_importance_of_the_first_data(tmp_path):
    module = Module()
    importances = []

    def importance(module, loader):
        importances.append(flt.fisher(module, loader))
        return importances[-1]

    first = flt.fisher(module, loader(0))
    callback = flt.lightning.ContinualCallback(importance, proximal=0.5, start=True)
    trainer(tmp_path, callback).fit(module, loader(0))
    torch.testing.assert_close(importances[0], first)
    expected = {name: (value + importances[1][name]) / 2 for name, value in first.items()}
    torch.testing.assert_close(callback.continual.state_dict()["anchor"]["omega"], expected)


def test_an_evaluation_of_a_checkpoint_does_not_rewind(tmp_path):
    module, callback = Module(), flt.lightning.ContinualCallback(proximal=0.5, average="mean")
    first = trainer(tmp_path, callback)
    first.fit(module, loader(0))
    first.save_checkpoint(tmp_path / "first.ckpt")
    trainer(tmp_path, callback).fit(module, loader(1))
    trainer(tmp_path, callback).test(module, loader(0), ckpt_path=tmp_path / "first.ckpt", weights_only=True)
    trainer(tmp_path, callback).fit(module, loader(2))
    assert callback.continual.task == 4
