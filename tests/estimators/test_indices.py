"""Sparse rows whose indices point outside memory: rejected before they are used."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import is_classifier

import forgetless as fl


def wild(format):
    """Return a sparse 4 × 3 matrix whose indices point far outside, as SciPy lets one make it."""
    X = sparse.csr_array(np.eye(4, 3)).asformat(format.removesuffix(" pointers"))
    if format.endswith("pointers"):  # which SciPy's own check passes, as there seem to be no entries
        X.indptr = np.array([0, *[2**30] * (len(X.indptr) - 2), 0], dtype=X.indptr.dtype)
    elif format == "coo":
        X.coords = (X.coords[0], np.full_like(X.coords[1], 2**30))
    elif format == "lil":
        X.rows[0] = [2**30]
    elif format == "dok":
        X._dict[0, 2**30] = 1.0
    else:
        X.indices = np.full_like(X.indices, 2**30)
    return X


@pytest.mark.parametrize(
    "format", ["csr", "csc", "bsr", "coo", "lil", "dok", "csr pointers", "csc pointers", "bsr pointers"]
)
@pytest.mark.parametrize(
    "model", [fl.ContinualRidge(alpha=1.0), fl.JointRidge(), fl.ContinualRidgeClassifier()], ids=str
)
def test_sparse_rows_with_indices_outside_are_refused(model, format):
    y = np.array([1.0, -1.0, 1.0, -1.0])
    labels = np.where(y > 0, "u", "v") if is_classifier(model) else y
    model = type(model)().fit(np.eye(4, 3) + 1, labels)
    before = model.coef_.copy()
    for call in (
        lambda: model.partial_fit(wild(format), labels),
        lambda: model.partial_fit_blocks([(wild(format), labels)]),
        lambda: model.fit(wild(format), labels),
        lambda: model.predict(wild(format)),
        lambda: fl.step(np.zeros(3), (wild(format), y), fl.Ridge(1.0)),
    ):
        with pytest.raises(ValueError, match="ind"):
            call()
    np.testing.assert_array_equal(model.coef_, before)
