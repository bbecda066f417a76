"""The callback of Lightning against plain loops: the same weights, bit for bit."""

import inspect
import pickle
from functools import partial

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import forgetless.torch as flt
from forgetless.torch.trainers import LightningCallback
from support.deep.networks import batches, mlp, shown, weights

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own: workers of loaders, folders, missing loggers
FISHER = partial(flt.fisher, max_samples=32)
MECHANISMS = {
    "EWC": lambda: [flt.Proximal(50.0, FISHER)],
    "SI": lambda: [flt.Proximal(0.5, flt.si), flt.StepSize(flt.cosine(4))],
    "all": lambda: [flt.Proximal(0.5, FISHER), flt.StepSize(flt.inverse()), flt.Average(5), flt.Merge(1.5)],
}


class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.evaluated = mlp(), []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        return functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.evaluated.append(weights(self.net))

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=0.05)


def loader(task):
    x, y = (torch.cat(parts) for parts in zip(*batches(4, seed=task), strict=True))
    return DataLoader(TensorDataset(x, y), batch_size=16)


def trainer(tmp_path, *callbacks, **options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    defaults = {"enable_checkpointing": False, "max_epochs": 1, "accelerator": "cpu"}
    return Trainer(default_root_dir=tmp_path, callbacks=list(callbacks), **quiet, **defaults | options)


def begin(make):
    module = Module()
    return module, LightningCallback(flt.Continual(module, make()))


def plain(make, tasks=3, accumulate=1):
    net = mlp()
    continual = flt.Continual(net, make())
    for task in range(tasks):
        optimizer, data = torch.optim.Adam(net.parameters(), lr=0.05), batches(4, seed=task)
        for i in range(0, 4, accumulate):
            optimizer.zero_grad()
            for x, y in data[i : i + accumulate]:
                (functional.cross_entropy(net(x), y) / accumulate).backward()
            optimizer.step()
        continual.next_task(loader(task))
    return shown(net, continual)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_fits_are_a_plain_loop(tmp_path, make, accumulate):
    """A new optimizer for every fit, as Lightning makes it, is followed."""
    module, callback = begin(make)
    for task in range(3):
        trainer(tmp_path, callback, accumulate_grad_batches=accumulate).fit(module, loader(task))
    assert torch.equal(shown(module.net, callback.continual), plain(make, accumulate=accumulate))
    assert callback.continual.task == 4


def test_a_fit_resumes_from_a_checkpoint_and_evaluations_do_not_rewind(tmp_path):
    """Saved after the first of two epochs of the second task, in Lightning's own checkpoint."""
    module, callback = begin(MECHANISMS["all"])
    trainer(tmp_path, callback).fit(module, loader(0))
    saver = ModelCheckpoint(dirpath=tmp_path, filename="{epoch}", save_top_k=-1)
    trainer(tmp_path, callback, saver, enable_checkpointing=True, max_epochs=2).fit(module, loader(1))
    whole, file = weights(module.net), tmp_path / "epoch=0.ckpt"
    trainer(tmp_path, callback).test(module, loader(0), ckpt_path=file, weights_only=True, verbose=False)
    trainer(tmp_path, callback).fit(module, loader(2))
    assert callback.continual.task == 4
    module, callback = begin(MECHANISMS["all"])
    trainer(tmp_path, callback, max_epochs=2).fit(module, loader(1), ckpt_path=file)
    assert callback.continual.task == 3
    assert torch.equal(weights(module.net), whole)


def test_evaluations_use_averaged_weights(tmp_path):
    module, callback = begin(lambda: [flt.Average(5)])
    fit = trainer(tmp_path, callback, num_sanity_val_steps=0)
    fit.fit(module, loader(0), loader(1))
    average = shown(module.net, callback.continual)
    assert torch.equal(module.evaluated[-1], average)
    assert not torch.equal(weights(module.net), average)
    fit.test(module, loader(1), verbose=False)
    assert torch.equal(module.evaluated[-1], average)
    fit.save_checkpoint(tmp_path / "first.ckpt")
    trainer(tmp_path, callback).fit(module, loader(2))
    fit.test(module, loader(1), ckpt_path=tmp_path / "first.ckpt", weights_only=True, verbose=False)
    assert torch.equal(module.evaluated[-1], average)


def test_the_callback_is_one_class_that_explains_itself():
    assert pickle.loads(pickle.dumps(LightningCallback)) is LightningCallback
    assert inspect.getdoc(LightningCallback).startswith("Close a task at the end of every ``fit``")
