"""On a GPU: the weights of the processor, and no wait for the device."""

import warnings

import pytest
import torch

import forgetless.torch as flt
from support.deep.networks import batches, mlp, needs_gpu, shown, train

pytestmark = needs_gpu

OPTIMIZERS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "sgd fused": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, fused=True),
    "adam": lambda params: torch.optim.Adam(params, lr=0.05),
    "adam fused": lambda params: torch.optim.Adam(params, lr=0.05, fused=True),
    "adam capturable": lambda params: torch.optim.Adam(params, lr=0.05, capturable=True),
    "adam capturable, lr a tensor": lambda params: torch.optim.Adam(
        params, lr=torch.tensor(0.05, device=params[0].device), capturable=True
    ),
    "adamw": lambda params: torch.optim.AdamW(params, lr=0.05),
}
IMPORTANCES = {"identity": None, "fisher": flt.fisher, "si": flt.si}


def run(device, make, importance, guard=lambda step: step()):
    """Train three tasks with all mechanisms; with a guard optimizer steps must not wait for the device."""
    net = mlp().double().to(device)
    mechanisms = [flt.Proximal(0.5, importance), flt.StepSize(flt.inverse(2)), flt.Average(5), flt.Merge(2)]
    continual, optimizer = flt.Continual(net, mechanisms), make(list(net.parameters()))
    for task in range(3):
        data = [(x.double(), y) for x, y in batches(4, seed=task)]
        train(net, optimizer, data, step=lambda: guard(optimizer.step))
        continual.next_task(data)
    return shown(net, continual).cpu()


def without_waiting(step):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype", UserWarning)
        torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("importance", IMPORTANCES.values(), ids=IMPORTANCES.keys())
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_same_weights_without_waiting_for_the_device(name, importance):
    plain = OPTIMIZERS["sgd" if "sgd" in name else "adamw" if "adamw" in name else "adam"]
    here, there = run("cpu", plain, importance), run("cuda", OPTIMIZERS[name], importance, without_waiting)
    # Where its steps can be captured, Adam itself computes 1 − β^t in float32.
    loose = {"rtol": 2e-3, "atol": 1e-5} if "capturable" in name else {"rtol": 1e-6, "atol": 1e-8}
    torch.testing.assert_close(there, here, **loose)
