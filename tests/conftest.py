import hypothesis
import numpy as np
import pytest

from support.campaigns import SEED

# A test does not depend on the machine's speed.
hypothesis.settings.register_profile("forgetless", deadline=None)
hypothesis.settings.load_profile("forgetless")


@pytest.fixture
def rng(request):
    """A generator of its own for every test, from the test's name."""
    return np.random.default_rng(list(request.node.name.encode()))


def pytest_report_header():
    return f"campaigns: FORGETLESS_SEED={SEED}"
