"""Many streams, one after another, until they are done or the time is up."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from deep.data import load, pack
from deep.protocol import run
from deep.streams import STREAMS, Spec
from deep.training import OutOfTime, Settings

TOY = Settings(n=60, n_eval=30, steps=6, batch=10, hidden=(12,), importance_samples=20, buffer=20)


def bench(
    streams: Sequence[str],
    out: Path,
    *,
    data: Path | None = None,
    tuning_seeds: int = 4,
    report_seeds: int = 20,
    minutes: float = math.inf,
    device: str = "auto",
    at_once: int = 1000,
    toy: bool = False,
    tell: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Run the streams, all if none is named, but for what is done in ``out``; return the finished records.

    ``minutes``: stop after so long; what is finished is kept, and the next call goes on. ``at_once``: runs that are
    trained together, less for a device with less memory than 40 GB. ``toy``: tiny tasks, to see that all works.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    deadline, records, pools = time.monotonic() + 60 * minutes, [], {}
    for name in _known(streams):
        spec = STREAMS[name]
        if spec.data not in pools:
            pools[spec.data] = load(spec.data, data)
        try:
            record = run(
                name,
                _small(spec) if toy else spec,
                pools[spec.data],
                out,
                how=TOY if toy else Settings(),
                tuning_seeds=2 if toy else tuning_seeds,
                report_seeds=3 if toy else report_seeds,
                device=device,
                at_once=at_once,
                deadline=deadline,
                tell=tell,
            )
        except OutOfTime:
            tell(f"the time is up in {name}; the same command goes on from its last finished phase")
            break
        records.append(record)
    return records


def packed(streams: Sequence[str], data: Path | None, out: Path) -> list[Path]:
    """Write what the streams need of the data to ``out``, to be taken to another machine."""
    return pack(list(dict.fromkeys(STREAMS[name].data for name in _known(streams))), data, out)


def _known(streams: Sequence[str]) -> Sequence[str]:
    for name in streams:
        if name not in STREAMS:
            raise ValueError(f"stream must be one of {', '.join(STREAMS)}, got {name!r}")
    return streams or list(STREAMS)


def _small(spec: Spec) -> Spec:
    k = 4 if spec.order == "random" else 3
    return replace(spec, n_tasks=3, k=k)
