"""One file of every kind of model, as bytes."""

import pytest
from sklearn.base import clone

from attacks.models import MODELS, labelled, tasks


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The bytes of one file of every kind, by name."""
    path, contents = tmp_path_factory.mktemp("models") / "m.fl", {}
    for name, model in MODELS.items():
        model = clone(model)
        for X, y in tasks(0):
            model.partial_fit(X, *labelled(model, y))
        model.save(path)
        contents[name] = path.read_bytes()
        if name == "ridge":
            model.save(path, state="predict")
            contents["predict"] = path.read_bytes()
    return contents
