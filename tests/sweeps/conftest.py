import pytest


@pytest.fixture(autouse=True, scope="module")
def without_numba():
    """Loading compiled code takes every worker process seconds; the long campaigns do it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORGETLESS_NUMBA", "never")
        yield
