import numpy as np
import pytest


@pytest.fixture
def rng(request):
    """A generator of its own for every test, from the test's name."""
    return np.random.default_rng(list(request.node.name.encode()))
