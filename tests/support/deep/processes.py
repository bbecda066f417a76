"""Two processes that train together, started apart from the tests' own."""

import gc
import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

TESTS = Path(__file__).parents[2]


def two_processes(function, module="support.deep.processes"):
    """Return what a function of a module gives in each of two processes of one gloo group."""
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "support.deep.processes", module, function, str(rank), folder],
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


def continual_training():
    """Three tasks with Adam, all mechanisms at once and importances of all processes: the averaged weights."""
    import forgetless.torch as flt

    rank = torch.distributed.get_rank()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    model = torch.nn.parallel.DistributedDataParallel(net)
    mechanisms = [flt.Proximal(0.5, flt.fisher), flt.StepSize(flt.inverse()), flt.Average(9), flt.Merge(2)]
    continual = flt.Continual(model, mechanisms)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(3):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(10):
            x = torch.randn(16, 6, generator=generator)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long()).backward()
            optimizer.step()
        continual.next_task(x)
    with continual.evaluation():
        return torch.cat([p.detach().ravel() for p in net.parameters()])


if __name__ == "__main__":
    module, name, place, folder = sys.argv[1:]
    store = f"file://{folder}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=int(place), world_size=2)
    # As torchrun does, for trainers, which use a group that is there.
    os.environ |= {"RANK": place, "LOCAL_RANK": place, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "0", "TORCHELASTIC_RUN_ID": "test"}
    torch.save(getattr(importlib.import_module(module), name)(), os.path.join(folder, f"{place}.pt"))
    # The data-parallel model is part of a reference cycle and holds the group: its threads would live on while the
    # interpreter is torn down, and one that then needs the interpreter's lock ends the process by std::terminate.
    gc.collect()
    torch.distributed.destroy_process_group()
