"""Products by quiet threads equal plain ones, whole or divided."""

import numpy as np
import pytest

from forgetless._base import products


@pytest.mark.parametrize("shape", [(0, 3, 2), (1, 3, 2), (7, 0, 2), (5, 4, 3), (301, 200, 400)])
def test_products_equal_plain_ones(shape, rng, monkeypatch):
    monkeypatch.setattr(products, "n_threads", lambda: 3)
    n, inner, m = shape
    A, B = rng.standard_normal((n, inner)), rng.standard_normal((m, inner)).T
    np.testing.assert_allclose(products.product(A, B), A @ B, rtol=1e-12, atol=1e-12)


def test_other_libraries_multiply_themselves():
    import array_api_strict as xp

    A = xp.asarray([[1.0, 2.0]])
    assert float(products.product(A, A.T)[0, 0]) == 5.0


def test_the_threads_of_blas_are_as_before(monkeypatch):
    controller = products._controller()
    if controller is None:
        pytest.skip("threadpoolctl is not installed")
    before = [each["num_threads"] for each in controller.info()]
    with products.one_blas_thread():
        assert all(each["num_threads"] == 1 for each in controller.info() if each["user_api"] == "blas")
    assert [each["num_threads"] for each in controller.info()] == before
