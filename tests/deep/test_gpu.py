"""On a GPU: the same weights as on the processor, no wait for the device, skipped steps."""

import math
import warnings

import pytest
import torch
from torch.nn import functional

import forgetless.torch as flt
from forgetless.torch import _proximal
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
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype", UserWarning)
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


@pytest.mark.parametrize("weighted", [False, True], ids=["identity", "diagonal"])
@pytest.mark.parametrize("name", ["adam", "adam fused", "adam capturable"])
def test_recorded_pulls_have_the_bits_of_launched_ones(name, weighted, monkeypatch):
    """Also when rates change, states are loaded and storage moves between steps."""
    seen = []
    for limit in (_proximal.LARGE, 0):
        monkeypatch.setattr(_proximal, "LARGE", limit)
        net = mlp().cuda()
        optimizer = OPTIMIZERS[name](list(net.parameters()))
        importance = {n: p.detach().abs() for n, p in net.named_parameters()}
        anchor = flt.Anchor(net, optimizer, 3.0, 3, start=importance if weighted else True)
        for i, (x, y) in enumerate(batches(8)):
            if i == 3:
                optimizer.param_groups[0]["lr"] = 0.01
            if i == 5:
                optimizer.load_state_dict(optimizer.state_dict())
            if i == 6:
                for p in net.parameters():
                    p.data = p.data.clone()
            optimizer.zero_grad()
            functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
            optimizer.step()
        recorded = [bucket.recording is not None for bucket in anchor._planned()]
        assert all(recorded) if limit else not any(recorded)
        seen.append(weights(net))
    assert torch.equal(*seen)


def test_a_pull_inside_a_captured_step():
    """A graph of the whole step takes the pull's kernels into itself."""
    net, like = mlp().cuda(), mlp().cuda()
    x, y = (part.cuda() for part in batches(1)[0])
    made = []
    for each in (net, like):
        optimizer = torch.optim.Adam(each.parameters(), lr=0.05, capturable=True)
        flt.Anchor(each, optimizer, 3.0, 3, start=True)

        def step(each=each, optimizer=optimizer):
            optimizer.zero_grad(set_to_none=False)
            functional.cross_entropy(each(x), y).backward()
            optimizer.step()

        made.append(step)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            made[0]()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made[0]()
    for _ in range(3):
        graph.replay()
    for _ in range(6):
        made[1]()
    torch.testing.assert_close(weights(net), weights(like), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("average", ["moving", "mean", ("merge", 2.0)], ids=str)
def test_mechanisms_give_the_same_weights(average):
    """All three together: proximal term, step sizes and an average."""

    def trained(device):
        net = mlp().double().to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
        continual = flt.Continual(net, optimizer, proximal=0.5, step_size="cosine", average=average, n_tasks=3)
        for task in range(3):
            for x, y in batches(4, seed=task):
                optimizer.zero_grad()
                functional.cross_entropy(net(x.double().to(device)), y.to(device)).backward()
                optimizer.step()
            continual.next_task()
        with continual.averaged_weights():
            averaged = weights(net).cpu()
        return weights(net).cpu(), averaged

    for there, here in zip(trained("cuda"), trained("cpu"), strict=True):
        torch.testing.assert_close(there, here, rtol=1e-6, atol=1e-8)
