"""Many runs: sweeps over named axes, their store, and tables and figures of them."""

from forgetless.sweeps.merging import merge
from forgetless.sweeps.store import Store
from forgetless.sweeps.sweep import Sweep, load_sweep

__all__ = ["Store", "Sweep", "load_sweep", "merge"]
