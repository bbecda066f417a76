"""Schedules: the filter of each of k steps.

A schedule is any callable ``(k, radius) → filter`` whose filter is constant or has one value per
step. Wherever a schedule is expected, a bare filter stands for itself at every step.
"""

from forgetless.schedules.base import Preset, Schedule, auto, resolve
from forgetless.schedules.names import from_name
from forgetless.schedules.optimal import minimax, minimax_budget, steady
from forgetless.schedules.presets import (
    constant,
    cyclic,
    end_ramp,
    fixed,
    fixed_budget,
    from_coefficients,
    increasing,
    increasing_budget,
)

__all__ = [
    "Preset",
    "Schedule",
    "auto",
    "constant",
    "cyclic",
    "end_ramp",
    "fixed",
    "fixed_budget",
    "from_coefficients",
    "from_name",
    "increasing",
    "increasing_budget",
    "minimax",
    "minimax_budget",
    "resolve",
    "steady",
]
