"""Training of many runs at once: each a method, its strength and a seed, on the stream of that seed.

One step of SGD or Adam on a batch and then the step of ``Proximal``: w ← w + s(a − w), s = γλΩ/(D + γλΩ). Tests compare
with a plain loop of ``Continual``, ``fisher``, ``mas`` and ``si``. Adam begins anew at every task. Importances are
divided by their mean after the first task, so that λ has one unit for all metrics.

Batches come from generators on the processor, keyed by seed and step: all runs of a seed see the same ones.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from deep import networks
from deep.averages import Averages
from deep.methods import Method
from deep.streams import Stream

BETAS, EPS = (0.9, 0.999), 1e-8
KINDS = ("stream", "replay", "joint")
ORDER = ("identity", "fisher", "mas", "si")


@dataclass(frozen=True)
class Settings:
    """Sizes: rows of a task, of its validation and test parts; steps of a task, batch; and what methods are given."""

    n: int = 2000
    n_eval: int = 1000
    steps: int = 200
    batch: int = 100
    hidden: tuple[int, ...] = (256, 256)
    buffer: int = 500
    importance_samples: int = 500
    damping: float = 0.1


@dataclass(frozen=True)
class Run:
    """A method with its strength c, on the seed number ``seed`` of the stream."""

    method: Method
    c: float
    seed: int
    tuned: tuple[tuple[str, float], ...] = ()

    @property
    def values(self) -> dict[str, float]:
        """The values of all parameters."""
        return dict(self.tuned) | {self.method.knob: self.c}


class OutOfTime(Exception):  # noqa: N818
    """The deadline has passed."""


def train(
    stream: Stream,
    runs: list[Run],
    how: Settings,
    *,
    part: str,
    full: bool = False,
    deadline: float = float("inf"),
    dtype: Any = torch.float32,
) -> tuple[dict[str, NDArray[np.float64]], list[Any]]:
    """Train all runs; return what was measured on ``part``, arrays with one row a run, and the final parameters.

    ``score``: mean over all tasks at the end, accuracy or R²; ``full`` adds ``learned`` (each task right after its
    step), ``forgotten`` (what of that is lost at the end), the ``worst`` task, and ``along`` (mean over the steps so
    far, at every quarter).
    """
    ranks = [ORDER.index(run.method.metric) for run in runs]
    if ranks != sorted(ranks):
        raise ValueError("runs must come metric by metric, in the order of ORDER")
    state = _State(stream, runs, how, dtype)
    k, right_after, along = stream.spec.k, [], []
    quarters = {max(1, round(k * f)) for f in (0.25, 0.5, 0.75)} - {k} if full else set()
    for t in range(1, k + 1):
        if time.monotonic() > deadline:
            raise OutOfTime
        state.learn(t)
        if full:
            right_after.append(state.scores(part, stream.order[:, t - 1]))
        if t in quarters:
            with state.averaged():
                along.append(torch.stack([state.scores(part, stream.order[:, u]) for u in range(t)]).mean(0))
    state.params = state.averages.weights(state.params)
    tasks = [torch.full_like(stream.order[:, 0], m) for m in range(stream.spec.n_tasks)]
    scores = torch.stack([state.scores(part, each) for each in tasks])  # (M, R)
    found = {"score": scores.mean(0)}
    if full:
        final = scores.gather(0, stream.order[state.seed].T)  # (k, R): of the task of every step
        learned = torch.stack(right_after)
        found |= {"learned": learned.mean(0), "forgotten": (learned - final).mean(0), "worst": scores.min(0).values}
        found["along"] = torch.stack([*along, final.mean(0)], 1)
    return {key: value.cpu().double().numpy() for key, value in found.items()}, state.params


class _State:
    """Parameters of all runs, their anchors and importances."""

    def __init__(self, stream: Stream, runs: list[Run], how: Settings, dtype: Any) -> None:
        spec, device = stream.spec, stream.device
        self.stream, self.how, self.dtype = stream, how, dtype
        self.seed = torch.tensor([run.seed for run in runs], device=device)
        self.kind = torch.tensor([KINDS.index(run.method.data) for run in runs], device=device)
        self.layers = networks.layers_of(spec.network, stream.x["train"].shape[-1], spec.outputs, how.hidden)
        self.params = networks.start(self.layers, [stream.seeds[run.seed] for run in runs], dtype, device)
        plans = [run.method.plan(run.values, spec.k) for run in runs]
        self.strength = _per_task([plan.strengths for plan in plans], device, dtype)
        self.distillation = _per_task([plan.distillation for plan in plans], device, dtype)
        self.rate = spec.lr * _per_task([plan.rates for plan in plans], device, dtype)
        self.merges = _per_task([plan.merges for plan in plans], device, dtype)
        self.budget = [[max(1, round(how.steps * min(1.0, share))) for share in plan.steps] for plan in plans]
        self.averages = Averages(self.params, [run.method for run in runs], plans, how.steps)
        self.teacher: tuple[list[Any], Any] | None = None
        metrics = [run.method.metric for run in runs]
        self.slices = {
            metric: slice(metrics.index(metric), metrics.index(metric) + metrics.count(metric))
            for metric in ORDER[1:]
            if metric in metrics
        }
        self.omega = [torch.ones_like(p) for p in self.params] if self.slices else None
        self.unit: dict[str, Any] = {}

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Evaluate averages of the weights where a method asks for them."""
        last, self.params = self.params, self.averages.weights(self.params)
        try:
            yield
        finally:
            self.params = last

    def learn(self, t: int) -> None:
        """Learn the task of step t, from 1."""
        budget = torch.tensor([own[t - 1] for own in self.budget])
        active = (torch.arange(int(budget.max()))[:, None] < budget).to(self.params[0].device, self.dtype)
        gamma = active * self.rate[t - 1]  # (steps, R)
        load = self._load(t)
        before = [p.clone() for p in self.params]
        path = self.slices.get("si")
        taken = [torch.zeros_like(p[path]) for p in self.params] if path else []
        adam = StackedAdam(self.params) if self.stream.spec.optimizer == "adam" else None
        share = [each / (1 + each) for each in load] if load and adam is None else []
        picked = self._picked(t)
        distills = t > 1 and bool(self.distillation[t - 1].any())
        self.teacher = (before, self.distillation[t - 1]) if distills else None
        for i in range(len(gamma)):
            gradients = self._gradients(picked[i])
            rate = gamma[i][:, None, None]
            for j, (p, g) in enumerate(zip(self.params, gradients, strict=True)):
                old = p[path].clone() if path else None
                if adam is None:
                    p.addcmul_(g, rate, value=-1)
                else:
                    root = adam.step(j, p, g, rate, i + 1)
                if path:
                    taken[j].addcmul_(g[path], old - p[path])
                if share:
                    p.lerp_(before[j], share[j])
                elif load:
                    p.addcdiv_((before[j] - p).mul_(load[j]), root.add_(load[j]))
            self.averages.step(self.params)
        for p, start in zip(self.params, before, strict=True):
            p.copy_(torch.lerp(start, p, self.merges[t - 1][:, None, None]))
        self.averages.close(self.params, t)
        if t < self.stream.spec.k:
            self._close(t, before, taken)

    def _load(self, t: int) -> list[Any]:
        """Return γλΩ in the shape of every parameter; nothing at the first task."""
        if t == 1 or not bool(self.strength[t - 1].any()):
            return []
        load = (self.rate[t - 1] * self.strength[t - 1])[:, None, None]
        return [load] * len(self.params) if self.omega is None else [load * each for each in self.omega]

    def _picked(self, t: int) -> Any:
        """Return which rows every run takes at every step, (steps, R, batch), among all of all seeds and tasks."""
        how, stream = self.how, self.stream
        n, order = stream.x["train"].shape[2], stream.order.cpu()
        rows, tasks = [], []
        for i, seed in enumerate(stream.seeds):
            generator = torch.Generator().manual_seed(1_000_003 * (seed + 1) + t)
            shape, half = (how.steps, how.batch), (how.steps, how.batch // 2)
            row = torch.randint(n, shape, generator=generator)
            task = order[i, t - 1].expand(shape).clone()
            joint = torch.randint(stream.spec.n_tasks, shape, generator=generator)
            old_row, old_task = row.clone(), task.clone()
            if t > 1:  # half of the batch from a buffer that the steps so far share evenly
                past = torch.randint(t - 1, half, generator=generator)
                kept = max(1, min(n, how.buffer // (t - 1)))
                old_task[:, : half[1]] = order[i][past]
                old_row[:, : half[1]] = torch.randint(kept, half, generator=generator)
            rows.append(torch.stack([row, old_row, row]))
            tasks.append(torch.stack([task, old_task, joint]))
        chosen = torch.stack(tasks) * n + torch.stack(rows)  # (S, kinds, steps, batch)
        chosen += (torch.arange(len(stream.seeds)) * stream.spec.n_tasks * n)[:, None, None, None]
        return chosen.to(stream.device)[self.seed, self.kind].transpose(0, 1)

    def _gradients(self, index: Any) -> Any:
        x, y = self.stream.x["train"], self.stream.y["train"]
        x = networks.scaled(x.flatten(0, 2).index_select(0, index.flatten()), self.dtype)
        y = y.flatten().index_select(0, index.flatten())
        leaves = [p.detach().requires_grad_() for p in self.params]
        with torch.enable_grad():
            out, *_ = networks.forward(self.layers, leaves, x.view(*index.shape, -1))
            loss = networks.loss_of(out, y.view(index.shape), self.stream.spec.loss).mean(1).sum()
            if self.teacher is not None:
                params, strength = self.teacher
                with torch.no_grad():
                    old, *_ = networks.forward(self.layers, params, x.view(*index.shape, -1))
                loss = loss + (strength * networks.distillation(out, old, self.stream.spec.loss)).sum()
        return torch.autograd.grad(loss, leaves)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _close(self, t: int, before: list[Any], taken: list[Any]) -> None:
        for metric, rows in self.slices.items():
            own = [p[rows] for p in self.params]
            if metric == "si":
                fresh = [
                    path.clamp_(min=0).div_((p - b[rows]).square_().add_(self.how.damping))
                    for path, p, b in zip(taken, own, before, strict=True)
                ]
            else:
                x = self._rows("train", self.stream.order[:, t - 1], self.seed[rows], self.how.importance_samples)
                fresh = networks.importance(
                    self.layers, own, x, metric, self.stream.spec.loss, chunk=_chunk(self.layers, len(x))
                )
            if t == 1:
                size = sum(f[0].numel() for f in fresh)
                self.unit[metric] = (size / sum(f.sum((1, 2)) for f in fresh))[:, None, None]
            assert self.omega is not None
            for omega, f in zip(self.omega, fresh, strict=True):
                # The first importance takes the place of the ones.
                omega[rows] = torch.lerp(omega[rows], f.mul_(self.unit[metric]), 1 / t)

    def _rows(self, part: str, tasks: Any, seed: Any, n: int) -> Any:
        return networks.scaled(self.stream.x[part][seed, tasks[seed], :n], self.dtype)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def scores(self, part: str, tasks: Any) -> Any:
        """Return accuracy or R², (R,), of one task for every seed."""
        x, y = self.stream.x[part], self.stream.y[part][self.seed, tasks[self.seed]]
        right, at_once = torch.zeros(len(self.seed), device=y.device), _chunk(self.layers, len(self.seed))
        for at in range(0, y.shape[1], at_once):
            cut = slice(at, at + at_once)
            rows = networks.scaled(x[self.seed, tasks[self.seed], cut], self.dtype)
            out, *_ = networks.forward(self.layers, self.params, rows)
            if y.is_floating_point():
                right += (out[..., 0] - y[:, cut]).square().sum(1)
            else:
                right += (out.argmax(-1) == y[:, cut]).sum(1)
        if y.is_floating_point():
            return 1 - right / y.shape[1] / y.var(1, correction=0)
        return right / y.shape[1]


class StackedAdam:
    """Adam for a stack of runs."""

    def __init__(self, params: list[Any]) -> None:
        self.mean = [torch.zeros_like(p) for p in params]
        self.square = [torch.zeros_like(p) for p in params]

    def step(self, j: int, p: Any, g: Any, rate: Any, count: int) -> Any:
        """Step parameter j and return its metric √v̂ + ε."""
        self.mean[j].lerp_(g, 1 - BETAS[0])
        self.square[j].mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
        root = (self.square[j] / (1 - BETAS[1] ** count)).sqrt_().add_(EPS)
        p.sub_((self.mean[j] / root).mul_(rate / (1 - BETAS[0] ** count)))
        return root


def _per_task(values: list[tuple[float, ...]], device: Any, dtype: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64).T.to(device, dtype).contiguous()


def _chunk(layers: tuple[networks.Layer, ...], n_runs: int) -> int:
    """Return how many rows of every run are looked at at once, two gigabytes for the largest layer of all."""
    return max(1, min(250, int(5e8 / max(layer.held for layer in layers) / max(1, n_runs))))
