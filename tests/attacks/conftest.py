"""One file of every kind of model, as bytes."""

import pytest

from attacks.models import MODELS, labelled, tasks


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The bytes of one file of every kind, by name."""
    path, found = tmp_path_factory.mktemp("models") / "m.npz", {}
    for name, (model, kind) in MODELS.items():
        model = type(model)(**model.get_params())
        for X, y in tasks(0, kind):
            model.partial_fit(X, *labelled(model, y))
        model.save(path)
        found[name] = type(model), path.read_bytes()
        if name == "ridge":
            model.save(path, state="predict")
            found["predict"] = type(model), path.read_bytes()
    return found
