"""The stacked transformer and its training against one network of torch's own layers and Continual."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import forgetless.torch as flt
from deep import language, transformer
from deep.methods import METHODS
from deep.training import Run

HOW = replace(language.TOY, width=8, batch=4, steps=4, pretraining=3, importance_samples=3)


class Network(nn.Module):
    """One byte transformer, by torch's own layers; ``r``: its place in the stack."""

    def __init__(self, weights, r, trained):
        super().__init__()
        self.names = {name: name.replace(".", "_") for name in weights}
        for name, weight in weights.items():
            value = nn.Parameter(weight[r].clone(), requires_grad=name in trained)
            self.register_parameter(self.names[name], value)

    def w(self, name):
        value = getattr(self, self.names[name])
        if f"{name}.a" in self.names:
            value = value + self.w(f"{name}.a") @ self.w(f"{name}.b")
        return value

    def forward(self, x):
        h = functional.embedding(x, self.w("bytes")) + self.w("places")[: x.shape[1]]
        width = h.shape[-1]
        for i in range(HOW.layers):
            z = functional.layer_norm(h, (width,), self.w(f"{i}.norm1")[0])
            attention = nn.MultiheadAttention(width, HOW.heads, bias=False, batch_first=True)
            mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
            state = {"in_proj_weight": self.w(f"{i}.attention").T, "out_proj.weight": self.w(f"{i}.mix").T}
            h = (
                h
                + torch.func.functional_call(attention, state, (z, z, z), {"attn_mask": mask, "need_weights": False})[0]
            )
            z = functional.layer_norm(h, (width,), self.w(f"{i}.norm2")[0])
            h = h + functional.gelu(z @ self.w(f"{i}.up") + self.w(f"{i}.bias")) @ self.w(f"{i}.down")
        return functional.layer_norm(h, (width,), self.w("norm")[0]) @ self.w("head")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    size = language.N_TRAIN + 2 * language.N_EVAL
    letters = rng.integers(97, 103, (7, size), dtype=np.uint8) + 5 * np.arange(7, dtype=np.uint8)[:, None]
    path = tmp_path_factory.mktemp("text") / "text.npz"
    np.savez(path, names=np.arange(7), text=letters)
    return path


def stream_of(file, rank):
    spec = language.LanguageSpec(n_tasks=3, k=3, rank=rank, lr=0.01)
    return language.problem("x", spec, HOW, file, "cpu").make([3, 8])


RUNS = ("L2 linear", "EMA", "mean of task ends", "merge inverse", "lr cosine", "replay", "joint")


@pytest.mark.parametrize("rank", [0, 2])
def test_stacked_training_is_plain_training(file, rank):
    stream = stream_of(file, rank)
    runs = [Run(METHODS[name], 0.7, seed) for name in RUNS for seed in (0, 1)]
    results, params = language.train(stream, runs, part="test", full=True)
    begun = language._State(stream, runs)
    for r, run in list(enumerate(runs))[1::2]:
        net = Network({**begun.frozen, **begun.trained}, r, begun.trained)
        plain(net, stream, run, [begun._picked(t)[r] for t in (1, 2, 3)])
        trained = [net.w(name) if rank == 0 else getattr(net, net.names[name]) for name in begun.trained]
        for stacked, own in zip(params, trained, strict=True):
            torch.testing.assert_close(stacked[r], own.detach(), rtol=1e-3, atol=2e-5)
        scores = [score(net, stream, [0, 1, 2, 3]), *(score(net, stream, [m]) for m in (4, 5, 6))]
        assert results["score"][r] == pytest.approx(np.mean(scores), abs=1e-4)
        assert results["mix"][r] == pytest.approx(scores[0], abs=1e-4)


def plain(net, stream, run, picked):
    """Train one network with Continual; its weights are then those that are evaluated."""
    plan = run.method.plan(run.values, 3, pretrained=True)
    params = [p for p in net.parameters() if p.requires_grad]
    # The pretrained network is task 1.
    mechanisms = [flt.Proximal([0.0, *plan.strengths]), flt.StepSize([1.0, *plan.rates])]
    if run.method.knob == "merge":
        mechanisms.append(flt.Merge(0.7))
    if run.method.read == "moving":
        mechanisms.append(flt.Average(plan.horizon * HOW.steps))
    continual = flt.Continual(net, mechanisms, pretrained=True)
    ends = [[p.detach().clone() for p in params]]
    for domains, offsets in picked:
        optimizer = torch.optim.Adam(params, lr=0.01)
        for i in range(HOW.steps):
            optimizer.param_groups[0]["lr"] = 0.01 * min(1.0, (i + 1) / HOW.warmup)
            x = torch.stack(
                [stream.bytes[m, at : at + HOW.length + 1].long() for m, at in zip(domains[i], offsets[i], strict=True)]
            )
            optimizer.zero_grad()
            functional.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        continual.next_task()
        ends.append([p.detach().clone() for p in params])
    with continual.evaluation():
        shown = [p.detach().clone() for p in params]
    if run.method.read == "mean":
        shown = [sum(values) / 4 for values in zip(*ends, strict=True)]
    with torch.no_grad():
        for p, value in zip(params, shown, strict=True):
            p.copy_(value)


def score(net, stream, domains):
    bits = []
    for m in domains:
        first, n = language.N_TRAIN + language.N_EVAL, HOW.n_eval
        for j in range(n):
            at = first + j * ((language.N_EVAL - HOW.length - 1) // n)
            x = stream.bytes[m, at : at + HOW.length + 1].long()[None]
            loss = functional.cross_entropy(net(x[:, :-1])[0], x[0, 1:])
            bits.append(float(loss.detach()) / np.log(2))
    return 1 - np.mean(bits) / 8


@pytest.mark.parametrize("rank", [0, 2])
def test_importances_are_squares_of_sampled_gradients(file, rank):
    """Labels drawn by the inverse of the distribution function, one sequence at a time; the mean over tasks."""
    stream = stream_of(file, rank)
    state = language._State(stream, [Run(METHODS["EWC linear"], 1.0, seed) for seed in (0, 1)])
    generator = torch.Generator().manual_seed(77)
    net = Network({**state.frozen, **state.trained}, 1, state.trained)
    params = [p for p in net.parameters() if p.requires_grad]
    total = [torch.zeros_like(p) for p in params]
    for _ in range(HOW.importance_samples):
        m = int(torch.randint(4, (1,), generator=generator))
        at = int(torch.randint(language.N_TRAIN - HOW.length - 1, (1,), generator=generator))
        uniform = torch.rand(1, HOW.length, generator=generator)[0]
        log = net(stream.bytes[m, at : at + HOW.length].long()[None])[0].log_softmax(-1)
        y = torch.searchsorted(log.detach().exp().cumsum(-1), uniform[:, None])[:, 0].clamp(max=255)
        gradients = torch.autograd.grad(log.gather(1, y[:, None]).sum(), params)
        total = [a + g.square() for a, g in zip(total, gradients, strict=True)]
    mean = sum(float(each.sum()) for each in total) / sum(each.numel() for each in total)
    by_name = dict(zip(state.trained, state.omega, strict=True))
    order = [name for name in net.names if name in state.trained]
    for name, each in zip(order, total, strict=True):
        torch.testing.assert_close(by_name[name][1], each / mean, rtol=1e-3, atol=1e-5)


def test_too_few_domains_raise(file):
    with pytest.raises(ValueError, match="has 7 domains, x needs 20"):
        language.problem("x", language.LanguageSpec(), HOW, file, "cpu")
    metric = Run(METHODS["SI linear"], 1.0, 0)
    with pytest.raises(ValueError, match="metric must be identity or fisher here"):
        language.train(stream_of(file, 0), [metric], part="val")


def test_adapters_leave_the_network_unchanged(file):
    stream = stream_of(file, 2)
    x = stream.evaluation("val", torch.tensor([4, 5]))
    whole = transformer.losses(stream.weights, x, HOW.heads)
    added = transformer.adapters(stream.weights, 2, 0)
    assert torch.equal(transformer.losses({**stream.weights, **added}, x, HOW.heads), whole)
