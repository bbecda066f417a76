"""Side-by-side timing: interleaved repeats, medians, and a Markdown table of ratios."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np


def medians(contestants: Mapping[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Return the median seconds of each contestant, called in turn so that a noisy moment hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for call in contestants.values():
        call()  # compilation, caches, page faults
    for _ in range(repeats):
        for name, call in contestants.items():
            time.sleep(0.03)  # threads of the contestant before keep spinning for a while
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def gemm_gflops(n: int = 1500, repeats: int = 5) -> float:
    """Return the speed of a double-precision matrix product here: the limit no dense algorithm passes."""
    A = np.random.default_rng(0).standard_normal((n, n))
    return 2e-9 * n**3 / medians({"gemm": lambda: A @ A}, repeats)["gemm"]


def table(title: str, command: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table under a title, with the command and the machine that made it."""
    lines = [f"### {title}", "", f"`{command}`, {machine()}", "", "| " + " | ".join(header) + " |"]
    lines.append("|" + "---|" * len(header))
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def machine() -> str:
    """Return the processor, cores and versions in a few words."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        name = found[0] if found else name
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}"


def ratio(value: float) -> str:
    """Return a ratio as people read it."""
    return f"{value:,.0f}×" if value >= 10 else f"{value:.1f}×"
