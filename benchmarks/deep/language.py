"""Continual fine-tuning of a pretrained byte language model on domains of text, many runs at once.

A transformer is pretrained on a mix of four domains, then fine-tuned on others by Adam with clipped gradients, one
after another; Adam begins anew at every task. The proximal term, averages and merging count the pretrained network as
the first task. Score: 1 − bits/8 per byte, the mean over the mix and all domains.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deep import transformer
from deep.averages import Averages
from deep.protocol import Problem
from deep.training import OutOfTime, Run, StackedAdam

N_TRAIN, N_EVAL = 300_000, 40_000
"""Bytes of a domain for training, and for validation and test each."""
N_MIXED = 4
"""Domains of the mix, the first of the file."""
CACHE: dict[tuple[Any, ...], Any] = {}
"""Pretrained weights by settings and seeds, which streams share."""


@dataclass(frozen=True)
class LanguageSpec:
    """One stream: domains, steps of the stream, their order, and the rank of adapters (0: all weights)."""

    n_tasks: int = 16
    k: int = 16
    order: str = "once"
    rank: int = 0
    lr: float = 1e-3


@dataclass(frozen=True)
class LanguageSettings:
    """Sizes of the network, of batches and of what is evaluated."""

    width: int = 128
    layers: int = 3
    heads: int = 4
    length: int = 64
    batch: int = 12
    steps: int = 100
    warmup: int = 10
    pretraining: int = 2500
    importance_samples: int = 32
    n_eval: int = 32
    buffer: int = 16


LANGUAGES = {
    "language": LanguageSpec(),
    "language-lora": LanguageSpec(rank=8, lr=3e-3),
    "language-repeat": LanguageSpec(n_tasks=12, k=30, order="random"),
}
SMALL = LanguageSettings(width=64, layers=2, heads=2, pretraining=2000)
"""For a CPU, with the same number of training steps for every stream."""
SMALL_STEPS = 800
TOY = LanguageSettings(
    width=16, layers=1, heads=2, length=16, batch=2, steps=3, warmup=2, pretraining=4, importance_samples=2, n_eval=2
)


@dataclass(frozen=True)
class Text:
    """Text of all domains, (domains, bytes), the pretrained weights of every seed, and the domain of each step."""

    spec: LanguageSpec
    how: LanguageSettings
    seeds: tuple[int, ...]
    bytes: Any
    weights: transformer.Weights
    order: Any

    def rows(self, domain: Any, offset: Any) -> Any:
        """Return the bytes (…, T + 1) at some offsets of some domains."""
        places = torch.arange(self.how.length + 1, device=self.bytes.device)
        return self.bytes.view(-1)[(domain * self.bytes.shape[1] + offset)[..., None] + places].long()

    def evaluation(self, part: str, domain: Any) -> Any:
        """Return the sequences (R, n, T + 1) on which domains (R,) are evaluated."""
        n = self.how.n_eval
        offset = N_TRAIN + (0 if part == "val" else N_EVAL)
        offsets = offset + torch.arange(n, device=self.bytes.device) * ((N_EVAL - self.how.length - 1) // n)
        return self.rows(domain[:, None].expand(-1, n), offsets.expand(len(domain), -1))


def problem(name: str, spec: LanguageSpec, how: LanguageSettings, file: Path, device: str) -> Problem:
    """Return a stream of text as a problem; ``file``: an array ``text`` (domains, bytes) of ``deep.text``."""
    with np.load(file) as arrays:
        text = torch.from_numpy(arrays["text"]).to(device)
    if len(text) < N_MIXED + spec.n_tasks:
        raise ValueError(f"{file} has {len(text)} domains, {name} needs {N_MIXED + spec.n_tasks}")

    def make(seeds: list[int]) -> Text:
        key = (replace(how, steps=0), tuple(seeds))
        if key not in CACHE:
            CACHE[key] = _pretrained(text, seeds, how)
        rngs = [np.random.default_rng([seed, 5]) for seed in seeds]
        orders = [
            rng.permutation(spec.n_tasks)[: spec.k] if spec.order == "once" else rng.integers(spec.n_tasks, size=spec.k)
            for rng in rngs
        ]
        order = torch.from_numpy(np.stack(orders)).to(device) + N_MIXED
        return Text(spec, how, tuple(seeds), text, CACHE[key], order)

    return Problem(name, {**asdict(spec), "outputs": 256}, asdict(how), make, train)


@torch.no_grad()  # type: ignore[untyped-decorator]
def _pretrained(text: Any, seeds: list[int], how: LanguageSettings) -> transformer.Weights:
    weights = transformer.start(seeds, how.width, how.layers, how.length, text.device)
    stream = Text(LanguageSpec(), how, tuple(seeds), text, weights, torch.zeros(len(seeds), 1))
    params = list(weights.values())
    adam = StackedAdam(params)
    generators = [torch.Generator().manual_seed(7919 * (seed + 1)) for seed in seeds]
    shape = (how.pretraining, 2 * how.batch)
    domains = torch.stack([torch.randint(N_MIXED, shape, generator=g) for g in generators], 1).to(text.device)
    most = N_TRAIN - how.length - 1
    offsets = torch.stack([torch.randint(most, shape, generator=g) for g in generators], 1).to(text.device)
    for i in range(how.pretraining):
        x = stream.rows(domains[i], offsets[i])
        rate = 2e-3 * min(1.0, (i + 1) / 100) * (0.5 + 0.5 * math.cos(math.pi * i / how.pretraining))
        gradients = _clipped(transformer.gradients(weights, {}, x, how.heads))
        for j, (p, g) in enumerate(zip(params, gradients, strict=True)):
            adam.step(j, p, g, rate, i + 1)
    return weights


def _clipped(gradients: Sequence[Any]) -> list[Any]:
    """Return gradients with a norm of at most 1 for every run."""
    norm = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0).sqrt()
    factor = (1.0 / norm.clamp(min=1.0))[:, None, None]
    return [g * factor for g in gradients]


@torch.no_grad()  # type: ignore[untyped-decorator]
def train(stream: Text, runs: list[Run], *, part: str, full: bool = False, deadline: float = math.inf) -> Any:
    """Train all runs; return the arrays of ``deep.training.train`` that have a meaning here, and the weights."""
    state = _State(stream, runs)
    k, learned, along = stream.spec.k, [], []
    quarters = {max(1, round(k * f)) for f in (0.25, 0.5, 0.75)} - {k} if full else set()
    for t in range(1, k + 1):
        if time.monotonic() > deadline:
            raise OutOfTime
        state.learn(t)
        if full:
            learned.append(state.score(part, state.domain(t), state.params))
        if t in quarters:
            shown = state.averages.weights(state.params)
            past = [state.score(part, state.domain(u), shown) for u in range(1, t + 1)]
            along.append(torch.stack([state.mixed(part, shown), *past]).mean(0))
    shown = state.averages.weights(state.params)
    every = [torch.full_like(state.seed, N_MIXED + m) for m in range(stream.spec.n_tasks)]
    scores = torch.stack([state.mixed(part, shown), *(state.score(part, each, shown) for each in every)])
    results = {"score": scores.mean(0)}
    if full:
        final = scores[1:].gather(0, stream.order[state.seed].T - N_MIXED)
        results |= {"learned": torch.stack(learned).mean(0), "worst": scores.min(0).values}
        results["forgotten"] = (torch.stack(learned) - final).mean(0)
        results["along"] = torch.stack([*along, torch.cat([scores[:1], final]).mean(0)], 1)
        results["mix"] = scores[0]
    return {key: value.cpu().double().numpy() for key, value in results.items()}, shown


class _State:
    """Weights of all runs, their centers and importances."""

    def __init__(self, stream: Text, runs: list[Run]) -> None:
        spec, how, device = stream.spec, stream.how, stream.bytes.device
        self.stream, self.how = stream, how
        self.seed = torch.tensor([run.seed for run in runs], device=device)
        self.kind = torch.tensor([("stream", "replay", "joint").index(run.method.data) for run in runs], device=device)
        own = {name: weight[self.seed] for name, weight in stream.weights.items()}
        self.trained = transformer.adapters(own, spec.rank, 3) if spec.rank else own
        self.frozen = own if spec.rank else {}
        if spec.rank and device.type == "cuda":
            self.frozen = {name: weight.bfloat16() for name, weight in own.items()}
        self.params = list(self.trained.values())
        plans = [run.method.plan(run.values, spec.k, pretrained=True) for run in runs]

        def column(name: str) -> Any:
            values = torch.tensor([getattr(plan, name) for plan in plans], dtype=torch.float64)
            return values.T.to(device, torch.float32)[:, :, None, None]

        self.strength, self.rate, self.merges = column("strengths"), spec.lr * column("rates"), column("merges")
        self.averages = Averages(self.params, [run.method for run in runs], plans, how.steps)
        metrics = [run.method.metric for run in runs]
        weighted = [i for i, metric in enumerate(metrics) if metric == "fisher"]
        if set(metrics) - {"identity", "fisher"}:
            raise ValueError(f"metric must be identity or fisher here, got {sorted(set(metrics))}")
        self.weighted = slice(weighted[0], weighted[-1] + 1) if weighted else None
        self.omega = [torch.ones_like(p) for p in self.params] if weighted else None
        if weighted:
            self._consolidate(0)

    def domain(self, t: int) -> Any:
        """Return the domain of step t for every run."""
        return self.stream.order[self.seed, t - 1]

    def score(self, part: str, domain: Any, params: Sequence[Any]) -> Any:
        """Return 1 − bits/8 of one domain (R,) for every run."""
        weights = {**self.frozen, **dict(zip(self.trained, params, strict=True))}
        loss = transformer.losses(weights, self.stream.evaluation(part, domain), self.how.heads)
        return 1 - loss / math.log(2) / 8

    def mixed(self, part: str, params: Sequence[Any]) -> Any:
        """Return the score of the mix of domains of pretraining."""
        domains = [torch.full_like(self.seed, m) for m in range(N_MIXED)]
        return torch.stack([self.score(part, domain, params) for domain in domains]).mean(0)

    def learn(self, t: int) -> None:
        """Learn the domain of step t, from 1."""
        before, adam, how = [p.clone() for p in self.params], StackedAdam(self.params), self.how
        picked = self._picked(t)
        load = self.rate[t - 1] * self.strength[t - 1]
        regularized = bool(load.any())
        for i in range(how.steps):
            x = self.stream.rows(picked[:, 0, i], picked[:, 1, i])
            warm = min(1.0, (i + 1) / how.warmup)
            gradients = _clipped(transformer.gradients(self.trained, self.frozen, x, how.heads))
            for j, (p, g) in enumerate(zip(self.params, gradients, strict=True)):
                root = adam.step(j, p, g, warm * self.rate[t - 1], i + 1)
                if regularized:
                    own = warm * load if self.omega is None else warm * load * self.omega[j]
                    p.addcdiv_((before[j] - p).mul_(own), root.add_(own))
            self.averages.step(self.params)
        for p, start in zip(self.params, before, strict=True):
            p.copy_(torch.lerp(start, p, self.merges[t - 1]))
        self.averages.close(self.params, t + 1)
        if self.omega is not None and t < self.stream.spec.k:
            self._consolidate(t)

    def _picked(self, t: int) -> Any:
        """Return domains and offsets of every run, step and row, (R, 2, steps, batch)."""
        how, order, chosen = self.how, self.stream.order.cpu(), []
        shape, half, most = (how.steps, how.batch), how.batch // 2, N_TRAIN - how.length - 1
        for i, seed in enumerate(self.stream.seeds):
            generator = torch.Generator().manual_seed(1_000_003 * (seed + 1) + t)

            def integers(n: int, shape: tuple[int, ...] = shape, generator: Any = generator) -> Any:
                return torch.randint(n, shape, generator=generator)

            offset, domain = integers(most), order[i, t - 1].expand(shape)
            past, mixed = integers(t, (how.steps, half)), integers(N_MIXED, (how.steps, half))  # past 0: the mix
            old_domain, old_offset = domain.clone(), offset.clone()
            old_domain[:, :half] = torch.where(past == 0, mixed, order[i][(past - 1).clamp(min=0)])
            # So many sequences of every domain are stored, at fixed places.
            old_offset[:, :half] = integers(how.buffer, (how.steps, half)) * 4001 % most
            every, mixed = integers(self.stream.spec.n_tasks + 1), integers(N_MIXED)
            joint = torch.where(every == 0, mixed, every - 1 + N_MIXED)
            domains, offsets = torch.stack([domain, old_domain, joint]), torch.stack([offset, old_offset, offset])
            chosen.append(torch.stack([domains, offsets], 1))  # (kinds, 2, steps, batch)
        return torch.stack(chosen).to(self.stream.bytes.device)[self.seed, self.kind]

    def _consolidate(self, t: int) -> None:
        """Include the Fisher estimate of step t in the mean, that of the mix before the first."""
        rows, stream, how = self.weighted, self.stream, self.how
        trained = {name: p[rows] for name, p in self.trained.items()}
        frozen = {name: p[rows] for name, p in self.frozen.items()}
        seed = self.seed[rows]
        total = [torch.zeros_like(p) for p in trained.values()]
        generator = torch.Generator().manual_seed(77 + t)
        for _ in range(how.importance_samples):
            mixed = int(torch.randint(N_MIXED, (1,), generator=generator))
            offset = int(torch.randint(N_TRAIN - how.length - 1, (1,), generator=generator))
            domain = stream.order[seed, t - 1] if t else torch.full_like(seed, mixed)
            x = stream.rows(domain, torch.full_like(seed, offset))[:, None]
            uniform = torch.rand(1, how.length, generator=generator).to(x.device)
            gradients = transformer.gradients(trained, frozen, x, how.heads, uniform=uniform)
            for each, g in zip(total, gradients, strict=True):
                each.add_(g.square())
        if t == 0:
            size = sum(each[0].numel() for each in total)
            self.unit = (size / sum(each.sum((1, 2)) for each in total))[:, None, None]
        assert self.omega is not None
        for omega, fresh in zip(self.omega, total, strict=True):
            omega[rows] = torch.lerp(omega[rows], fresh * self.unit, 1 / (t + 1))
