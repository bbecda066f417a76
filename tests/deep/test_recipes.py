"""A search over recipes, code that can be run again, and what an import loads."""

import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional

import forgetless as fl
import forgetless.torch as flt
from support.deep.networks import batches, begin, learn, mlp

NAMES = {"partial": partial, "flt": flt}


def experiment(mechanisms):
    """Three tasks, and minus the loss on all of them."""
    net, optimizer, continual = begin(*mechanisms)
    learn(net, optimizer, continual, range(3))
    x, y = (torch.cat(parts) for parts in zip(*(pair for t in range(3) for pair in batches(3, t)), strict=True))
    with continual.evaluation(), torch.no_grad():
        return -functional.cross_entropy(net(x), y).item()


@pytest.mark.parametrize("importance", [partial(flt.fisher, max_samples=20), flt.si])
def test_a_search_prints_the_whole_recipe(importance):
    """What is printed, run again, has the score that is printed; importance and other mechanisms included."""
    found = flt.search(experiment, importance, strengths=np.geomspace(1 / 8, 8, 3), beside=[flt.Average(2)])
    assert len(found.scores) == 4
    for recipe, score in found.scores.items():
        assert experiment(eval(recipe, NAMES)) == score
    *_, last = str(found).splitlines()
    assert last == f"best: flt.Continual(model, {found.best})"
    continual = eval(last.removeprefix("best: "), NAMES | {"model": mlp()})
    assert repr(continual) == f"Continual(task 1, {found.best})"
    with pytest.raises(TypeError, match=r"experiment must return a number, .*, got None"):
        flt.search(lambda mechanisms: None)
    assert flt.Search({"[]": -1.0, "[flt.Proximal(8)]": math.nan}).best == "[]"


@pytest.mark.parametrize(
    "code",
    [
        "flt.Proximal(flt.increasing(0.5, 3), importance=flt.si(0.2), relative=False, decoupled=True)",
        "flt.Proximal([0.0, 1.0], importance=partial(flt.mas, max_samples=20))",
        "flt.Proximal(1.0, importance=flt.si)",
        "flt.StepSize(flt.cosine(4))",
        "flt.StepSize(flt.inverse(2))",
        "flt.Average(20)",
        "flt.Merge(2)",
    ],
)
def test_mechanisms_are_shown_as_code(code):
    assert repr(eval(code, NAMES)) == code
    assert flt.inverse()(2) == 0.5


def test_importing_loads_torch_and_little_else():
    """Neither a trainer's library nor the tools of torch.compile, which take seconds."""
    code = (
        "import sys, torch; before = {*sys.modules}; import forgetless.torch, forgetless.torch.trainers;"
        "print(*{*sys.modules} - before)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "forgetless.torch.trainers" in loaded
    heavy = {"lightning", "transformers", "sympy", "scipy", "sklearn", "numba", "pandas", "matplotlib", "rich"}
    assert not heavy & {name.split(".")[0] for name in loaded}
    assert "torch._dynamo" not in loaded


def test_names_that_are_not_there_say_where_to_look():
    from forgetless.torch import trainers

    with pytest.raises(AttributeError, match="no attribute 'ContinualCallback'"):
        trainers.ContinualCallback  # noqa: B018
    with pytest.raises(AttributeError, match=r"'Continual'; for networks import forgetless\.torch as flt"):
        fl.Continual  # noqa: B018
