import os

# Asked for by scikit-learn's array-API checks, and only heeded when SciPy is imported for the first time.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest


@pytest.fixture
def rng(request):
    """A generator of its own for every test, from the test's name."""
    return np.random.default_rng(list(request.node.name.encode()))
