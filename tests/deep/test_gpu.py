"""On a GPU: the same weights as on the processor, no wait for the device, skipped steps."""

import math

import pytest
import torch
from torch.nn import functional

import forgetless.torch as flt
from support.deep.networks import batches, mlp, weights

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU was found; run this on a machine with one"
)

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


def run(device, make, weighted, step=None):
    net = mlp().double().to(device)
    optimizer = make(list(net.parameters()))
    anchor = flt.Anchor(net, optimizer, [0.0, 2.0, 4.0], 3, mode="manual")
    for task in range(3):
        for x, y in batches(4, seed=task):
            x, y = x.double().to(device), y.to(device)
            optimizer.zero_grad()
            functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            (step or (lambda anchor: anchor.step()))(anchor)
        anchor.next_task(flt.fisher(net, x) if weighted else None)
    return weights(net).cpu()


def without_waiting(anchor):
    torch.cuda.set_sync_debug_mode("error")
    try:
        anchor.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("weighted", [False, True], ids=["identity", "diagonal"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_same_weights_without_waiting_for_the_device(name, weighted):
    plain = OPTIMIZERS["sgd" if "sgd" in name else "adamw" if "adamw" in name else "adam"]
    here, there = run("cpu", plain, weighted), run("cuda", OPTIMIZERS[name], weighted, without_waiting)
    # Where its steps can be captured, Adam itself computes 1 − β^t in float32.
    loose = {"rtol": 2e-3, "atol": 1e-5} if "capturable" in name else {"rtol": 1e-6, "atol": 1e-8}
    torch.testing.assert_close(there, here, **loose)


@pytest.mark.parametrize("name", ["sgd fused", "adam", "adam fused", "adam capturable"])
def test_a_step_skipped_by_a_scaler_pulls_nothing(name):
    net = mlp().cuda()
    optimizer = OPTIMIZERS[name](list(net.parameters()))
    anchor = flt.Anchor(net, optimizer, 5.0, 3, start=True)
    scaler = torch.amp.GradScaler("cuda")
    seen = []
    for factor in (1.0, math.inf, 1.0):
        x, y = (part.cuda() for part in batches(1)[0])
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = functional.cross_entropy(net(x), y) * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append(weights(net))
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])
    assert anchor.strength == 5.0
