"""Two processes that train together, started apart from the tests' own."""

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import forgetless.torch as flt
from support.deep.networks import OPTIMIZERS, batches, mlp, shown, train

TESTS = Path(__file__).parents[2]


def two_processes():
    """Return what ``continual_training`` gives in each of two processes of one gloo group."""
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "support.deep.processes", str(rank), folder],
                cwd=TESTS,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        said = [process.communicate(timeout=240)[1] for process in started]
        assert [process.returncode for process in started] == [0, 0], said
        return [torch.load(Path(folder, f"{rank}.pt"), weights_only=True) for rank in range(2)]


def continual_training(rank):
    """Three tasks with Adam, all mechanisms at once and importances of all processes: the averaged weights."""
    net = mlp()
    model = torch.nn.parallel.DistributedDataParallel(net)
    mechanisms = [flt.Proximal(0.5, flt.fisher), flt.StepSize(flt.inverse()), flt.Average(9), flt.Merge(2)]
    continual = flt.Continual(model, mechanisms)
    for task in range(3):
        data = batches(10, seed=2 * task + rank)
        train(model, OPTIMIZERS["adam"](model.parameters()), data)
        continual.next_task(data)
    return shown(net, continual)


if __name__ == "__main__":
    place, folder = sys.argv[1:]
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=int(place), world_size=2)
    torch.save(continual_training(int(place)), os.path.join(folder, f"{place}.pt"))
    # The data-parallel model is part of a reference cycle and holds the group: its threads would live on while the
    # interpreter is torn down, and one that then needs the interpreter's lock ends the process by std::terminate.
    gc.collect()
    torch.distributed.destroy_process_group()
