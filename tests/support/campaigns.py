"""Campaigns: long random runs with a seed of their own every day."""

import datetime
import os

SEED = int(os.environ.get("FORGETLESS_SEED", datetime.date.today().toordinal()))
"""Another one every day, so that campaigns go on to new examples; set FORGETLESS_SEED to repeat one."""
