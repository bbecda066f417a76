"""Many streams, one after another, until they are done or the time is up."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from deep import language, text
from deep.data import load, pack
from deep.language import LANGUAGES
from deep.methods import METHODS, Method
from deep.protocol import Effort, Problem, problem_of_images, run
from deep.streams import STREAMS, Spec
from deep.training import OutOfTime, Settings

TOY = Settings(n=60, n_eval=30, steps=6, batch=10, hidden=(12,), importance_samples=20, buffer=20)


def bench(  # noqa: PLR0913
    streams: Sequence[str],
    out: Path,
    *,
    data: Path | None = None,
    methods: Sequence[str] = (),
    tuning_seeds: int = 4,
    report_seeds: int = 20,
    minutes: float = math.inf,
    device: str = "auto",
    at_once: int = 1000,
    toy: bool = False,
    small: bool = False,
    tell: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Run the streams, all if none is named, but for what is done in ``out``; return the finished records.

    ``minutes``: stop after so long; what is finished is kept, and the next call goes on. ``at_once``: runs that are
    trained together, less for a device with less memory than 40 GB. ``toy``: tiny tasks, to see that all works.
    ``small``: a smaller language model, and seven values of every parameter in place of eleven, for a CPU.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    records, pools = [], dict[str, Any]()
    effort = Effort(
        _chosen(methods),
        2 if toy else tuning_seeds,
        3 if toy else report_seeds,
        at_once,
        time.monotonic() + 60 * minutes,
        alternatives=0 if small else 2,
        every=2 if small else 1,
    )
    for name in _checked(streams):
        try:
            size = "toy" if toy else "small" if small else "full"
            records.append(run(*_problem(name, data, pools, device, size, effort), out, tell))
        except OutOfTime:
            tell(f"the time is up in {name}; the same command goes on from its last finished stack of runs")
            break
    return records


def _problem(
    name: str, data: Path | None, pools: dict[str, Any], device: str, size: str, effort: Effort
) -> tuple[Problem, Effort]:
    if name in LANGUAGES:
        file = (data or Path("results")) / "text.npz"
        if not file.exists():
            text.pack(file.parent)
        spec = LANGUAGES[name]
        small = replace(language.SMALL, steps=language.SMALL_STEPS // spec.k)
        how = {"toy": language.TOY, "small": small, "full": language.LanguageSettings()}[size]
        if size == "toy":
            spec = replace(spec, n_tasks=2, k=2)
        usable = [method for method in effort.methods if method.metric in ("identity", "fisher")]
        usable = [method for method in usable if method.knob not in ("distill", "steps")]
        return language.problem(name, spec, how, file, device), replace(
            effort, methods=usable, at_once=max(1, effort.at_once // 3)
        )
    image_spec = STREAMS[name]
    if image_spec.data not in pools:
        pools[image_spec.data] = load(image_spec.data, data)
    how_images = TOY if size == "toy" else Settings()
    image_spec = _small(image_spec) if size == "toy" else image_spec
    return problem_of_images(name, image_spec, pools[image_spec.data], how_images, device), effort


def packed(streams: Sequence[str], data: Path | None, out: Path) -> list[Path]:
    """Write what the streams need of the data to ``out``, to be taken to another machine."""
    names = _checked(streams)
    images = pack(list(dict.fromkeys(STREAMS[name].data for name in names if name in STREAMS)), data, out)
    return images + ([text.pack(out)] if set(names) & set(LANGUAGES) else [])


def _checked(streams: Sequence[str]) -> Sequence[str]:
    names = [*STREAMS, *LANGUAGES]
    for name in streams:
        if name not in names:
            raise ValueError(f"stream must be one of {', '.join(names)}, got {name!r}")
    return streams or names


def _chosen(names: Sequence[str]) -> list[Method]:
    for name in names:
        if name not in METHODS:
            raise ValueError(f"method must be one of {'; '.join(METHODS)}, got {name!r}")
    return [METHODS[name] for name in names] or list(METHODS.values())


def _small(spec: Spec) -> Spec:
    k = 4 if spec.order == "random" else 3
    return replace(spec, n_tasks=3, k=k)
