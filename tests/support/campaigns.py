"""Campaigns: long random runs with a seed of their own every day."""

import datetime
import os

import pytest

SEED = int(os.environ.get("FORGETLESS_SEED", datetime.date.today().toordinal()))
"""Another one every day, so that campaigns go on to new examples; set FORGETLESS_SEED to repeat one."""


def some_of(n, few):
    """Return batches, of which ``few`` are for every run and the others for long ones."""
    return [*range(few), *(pytest.param(batch, marks=pytest.mark.long) for batch in range(few, n))]


def seed_for(tries):
    """Return the seed of so many tries: that of the day for a campaign, always the same for the few of every run."""
    return SEED if tries > 1000 else 0
