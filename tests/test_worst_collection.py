"""The search for worst collections: gradient, value, checkpoints, files and what is shipped."""

import importlib
import itertools
import json
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize

import forgetless as fl
import literal
import registry
from forgetless import _ascent, cli
from forgetless._adversary import Adversary
from forgetless._spec import from_plain, to_plain

s = fl.schedules


@dataclass(frozen=True, eq=False)
class Flow(fl.Filter):
    """A filter the package does not know: its derivative is taken by differences."""

    time: float

    def share(self, eigenvalues):
        return -np.expm1(-self.time * eigenvalues)


FILTERS = {
    "ridge": fl.Ridge(0.7),
    "ridge, varying": fl.Ridge(np.array([0.0, 0.3, 2.0, 5.0, 9.0])),
    "descent": fl.GradientDescent(3, 0.4),
    "descent, varying": fl.GradientDescent(np.array([1, 2, 3, 1, 5]), np.array([0.9, 0.4, 0.2, 1.5, 0.1])),
    "projection": fl.Projection(),
    "stages": fl.Stages((2, 3), (fl.Projection(), fl.Ridge([1.0, 2.0, 3.0]))),
    "custom": Flow(0.8),
}


def random_collection(rng, M=4, d=3, B=2):
    units = rng.standard_normal((B, M, d))
    units /= np.linalg.norm(units, axis=2, keepdims=True)
    xi = rng.uniform(0.2, 0.95, (B, M))
    xi[:, 0] = 1.0
    return units, xi, rng.dirichlet(np.ones(M), B)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("free", [True, False])
def test_gradient_equals_finite_differences(name, free, rng):
    adversary = Adversary(FILTERS[name], 5, 4, 3, free)
    x = adversary.pack(*random_collection(rng))
    x[:, :12] *= rng.uniform(0.5, 2.0, (2, 12))  # directions of any length
    value, gradient = adversary(x)
    assert np.all(np.isfinite(value))
    h = 1e-6
    for i, change in enumerate(h * np.eye(x.shape[1])):
        difference = (adversary(x + change)[0] - adversary(x - change)[0]) / (2 * h)
        expected = 0.0 if i >= 16 and not free else difference
        np.testing.assert_allclose(gradient[:, i], expected, rtol=1e-6, atol=2e-9)
    parts = adversary.split(gradient)
    assert np.abs(parts[0]).max() > 1e-3
    assert np.abs(parts[1][:, 1:]).max() > 1e-3
    assert (np.abs(parts[2]).max() > 1e-3) == free


@pytest.mark.parametrize("name", FILTERS)
def test_value_equals_worst_case_on_copies(name, rng):
    """Probabilities n/N and the average they weigh are those of N equally likely tasks."""
    units, xi, _ = random_collection(rng, B=1)
    counts = np.array([3, 1, 4, 2])
    loss = Adversary(FILTERS[name], 5, 4, 3).loss(units, xi, counts[None] / 10)[0]
    rows = np.repeat(np.sqrt(xi[0])[:, None] * units[0], counts, axis=0)
    tasks = fl.TaskCollection([(row[None], [0.0]) for row in rows])
    assert loss == pytest.approx(fl.worst_case(tasks, FILTERS[name], 5).loss, rel=1e-11)


def test_the_convention_is_that_of_the_constructions():
    """The claim of rare_tasks, whose frequent task is repeated, from three rows and probabilities."""
    k, tasks = 64, fl.constructions.rare_tasks(64)
    rows = np.concatenate([task.X for task in tasks])[[0, 1, -1]]
    p = np.array([[1, 1, tasks.n_tasks - 2]]) / tasks.n_tasks
    filter_ = s.increasing()(k, 1.0)
    loss = Adversary(filter_, k, 3, 3).loss(rows[None], np.ones((1, 3)), p)[0]
    assert k * loss == pytest.approx(k * tasks.claim(filter_, k), rel=1e-12)
    assert round(k * loss, 3) == 0.95


# Values -----------------------------------------------------------------------------------------------------------


def literal_value(filter_, k, theta, norm, p):
    """k·loss of two rows at an angle, by literal steps along every order."""
    rows = np.array([[1.0, 0.0], norm * np.array([np.cos(theta), np.sin(theta)])])
    weights, step = np.array([p, 1 - p]), literal.step_of(filter_)
    V, H = np.zeros((2, 2)), (rows.T * weights) @ rows
    for order in itertools.product(range(2), repeat=k):
        product = np.eye(2)
        for t, m in enumerate(order, start=1):
            X = rows[m : m + 1]
            product = np.stack([step(product[:, i], X, np.zeros(1), t) for i in range(2)], axis=1)
        V += np.prod(weights[list(order)]) * product.T @ H @ product
    return 0.5 * k * np.linalg.eigvalsh(V)[-1]


@pytest.mark.parametrize("filter_", [fl.Projection(), fl.Ridge([0.2, 1.0, 3.0]), fl.GradientDescent(2, 0.3)], ids=repr)
def test_two_tasks_against_brute_force(filter_):
    def loss(point):
        theta, norm, p = point
        inside = 0 < norm <= 1 and 0 < p < 1
        return -literal_value(filter_, 3, theta, norm, p) if inside else 0.0

    grid = [(t, n, p) for t in (0.3, 0.8, 1.2, np.pi / 2) for n in (0.5, 1.0) for p in (0.2, 0.5, 0.8)]
    best = sorted(grid, key=loss)[:3]
    brute = max(
        -minimize(loss, point, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10}).fun for point in best
    )
    found = fl.worst_collection(filter_, 3, n_features=2, n_tasks=2, n_starts=8)
    assert brute * (1 - 2e-4) <= found.value <= brute * (1 + 1e-6)


SMALL = {"none": fl.Projection(), "fixed": s.fixed(), "increasing": s.increasing(), "budget": s.increasing_budget(2)}


@pytest.fixture(scope="module")
def small():
    return {
        name: fl.worst_collection(schedule, 16, n_features=3, n_tasks=4, n_starts=12, starts="random")
        for name, schedule in SMALL.items()
    }


@pytest.mark.parametrize("name", SMALL)
def test_random_starts_alone_beat_the_constructions(name, small):
    found = small[name]
    known = [fl.constructions.rare_tasks(16, n_rare, w, c) for n_rare in (1, 2) for w in (2.0, 5.0) for c in (0.3, 0.6)]
    known = [*known, fl.constructions.unseen_task(16)]
    assert found.value > 16 * max(fl.worst_case(tasks, SMALL[name], 16).loss for tasks in known)


@pytest.mark.parametrize("name", SMALL)
def test_what_is_found_is_a_collection_with_that_value(name, small):
    found = small[name]
    assert found.tasks.radius == pytest.approx(1.0, abs=1e-12)
    assert found.tasks.n_tasks == found.counts.sum()
    assert found.evaluate() == pytest.approx(found.value, rel=1e-9)
    direct = fl.expect(found.tasks, SMALL[name], 16).average_loss[0]
    assert 16 * direct == pytest.approx(found.value, rel=1e-9)
    certificate = found.certify()
    assert certificate.average_loss == pytest.approx(found.loss, rel=1e-9)
    assert certificate.distance == pytest.approx(1.0, abs=1e-9)
    assert all(check.ratio >= 1 for check in certificate.bounds if check.applies and check.ratio is not None)


@pytest.mark.parametrize("name", SMALL)
def test_it_lies_between_the_constants(name, small):
    found = small[name]
    assert found.lower.name == "any algorithm"
    assert found.lower.value == pytest.approx(1 / 16)
    for constant in found.constants:
        assert constant.value >= found.value if constant.kind == "upper" else constant.value <= found.value
    assert found.upper.status in ("paper", "literature", "elementary")
    assert found.best("upper", published=False).value <= found.upper.value
    with pytest.raises(ValueError, match='kind must be "upper" or "lower"'):
        found.best("both")


def test_the_summary_says_what_matters(small):
    text = repr(small["increasing"])
    for part in ("k·loss/(R²D²) = 0.859", "any algorithm (paper)", "Gram matrix", "seed=0", "Increasing(scale=4.33"):
        assert part in text
    assert len(small["increasing"].gram) == len(small["increasing"].counts)


@pytest.mark.parametrize(("k", "n_features", "n_tasks"), [(1, 1, 1), (2, 1, 2), (4, 2, 1), (4, 5, 3)])
def test_smallest_sizes(k, n_features, n_tasks):
    found = fl.worst_collection(fl.Ridge(1.0), k, n_features=n_features, n_tasks=n_tasks, n_starts=2, n_rounds=30)
    assert found.evaluate() == pytest.approx(found.value, rel=1e-9)
    assert found.rows.shape == (len(found.counts), n_features)
    if n_tasks == 1:  # the only task has norm 1: ½·k·(λ/(1 + λ))^{2k}
        assert found.value == pytest.approx(0.5 * k * 0.5 ** (2 * k), rel=1e-12)


def test_custom_filters_are_searched_but_not_saved(tmp_path):
    found = fl.worst_collection(Flow(0.8), 6, n_features=2, n_tasks=3, n_starts=4, n_rounds=60)
    assert found.evaluate() == pytest.approx(found.value, rel=1e-9)
    with pytest.raises(TypeError, match="Flow, which cannot be written"):
        found.save(tmp_path / "x.json")
    assert not list(tmp_path.iterdir())


def test_seeds_and_starts():
    arguments = {"n_features": 2, "n_tasks": 3, "n_starts": 4, "n_rounds": 20}
    first, again, other = (fl.worst_collection(s.fixed(), 8, **arguments, seed=seed) for seed in (0, 0, 1))
    assert first.value == again.value
    assert np.array_equal(first.rows, again.rows)
    assert not np.array_equal(first.rows, other.rows)
    more = fl.worst_collection(s.fixed(), 8, **{**arguments, "n_starts": 8}, seed=0)
    assert more.value >= first.value * (1 - 1e-4)
    rare = fl.worst_collection(s.fixed(), 8, **arguments, starts="rare")
    assert "starts='rare'" in rare.command


def rosenbrock(x):
    gap = x[:, 1] - x[:, 0] ** 2
    slope = np.stack([-400 * x[:, 0] * gap - 2 * (1 - x[:, 0]), 200 * gap], axis=1)
    return 100 * gap**2 + (1 - x[:, 0]) ** 2, slope


def minimised(start):
    descent = _ascent.Descent.begin(rosenbrock, start.copy())
    while descent.rounds < 500 and descent.active.any():
        descent.advance(rosenbrock)
    return descent


def test_the_minimiser_follows_every_start_as_if_it_were_alone():
    start = np.array([[-1.2, 1.0], [3.0, -2.0], [0.5, 0.5]])
    together = minimised(start)
    np.testing.assert_allclose(together.x, 1.0, atol=1e-4)
    assert not together.active.any()
    for b in range(3):
        np.testing.assert_array_equal(minimised(start[b : b + 1]).x[0], together.x[b])


# Checkpoints ------------------------------------------------------------------------------------------------------

SEARCH = {"schedule": s.increasing(), "k": 10, "n_features": 3, "n_tasks": 4, "n_starts": 5, "n_rounds": 60}


def stop_at(round_):
    def progress(done, total, best):
        if done == round_:
            raise KeyboardInterrupt

    return progress


def same(a, b):
    return a.value == b.value and np.array_equal(a.rows, b.rows) and np.array_equal(a.counts, b.counts)


def test_a_resumed_search_ends_as_one_never_stopped(tmp_path):
    path, whole = tmp_path / "state", fl.worst_collection(**SEARCH)
    for round_ in (3, 17):
        with pytest.raises(KeyboardInterrupt):
            fl.worst_collection(**SEARCH, checkpoint=path, resume=True, progress=stop_at(round_))
        assert [file.name for file in tmp_path.iterdir()] == ["state"]
    seen = []
    resumed = fl.worst_collection(
        **SEARCH, checkpoint=path, resume=True, progress=lambda done, total, best: seen.append((done, total, best))
    )
    assert seen[0][:2] == (17, 60)  # the round that was interrupted is done again
    assert [best for _, _, best in seen] == sorted(best for _, _, best in seen)
    assert seen[-1][2] == pytest.approx(resumed.value, rel=2e-4)
    assert same(resumed, whole)
    assert not path.exists()


def test_an_interruption_in_the_middle_of_a_round_loses_only_that_round(tmp_path, monkeypatch):
    path, whole = tmp_path / "state", fl.worst_collection(**SEARCH)
    left = [9]
    restart = _ascent.Descent._restart

    def interrupted(self, at):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        restart(self, at)

    monkeypatch.setattr(_ascent.Descent, "_restart", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fl.worst_collection(**SEARCH, checkpoint=path)
    assert same(fl.worst_collection(**SEARCH, checkpoint=path, resume=True), whole)


def test_checkpoints_are_written_on_the_way(tmp_path, monkeypatch):
    # The function hides the module of the same name.
    monkeypatch.setattr(importlib.import_module("forgetless.worst_collection"), "_SAVE_EVERY", 0.0)
    sizes = []
    path = tmp_path / "state"
    fl.worst_collection(
        **SEARCH,
        checkpoint=path,
        progress=lambda done, total, best: sizes.append(path.exists() and path.stat().st_size),
    )
    assert sizes[0] is False
    assert all(sizes[1:])


def test_checkpoints_are_not_lost_or_mixed_up(tmp_path):
    path = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        fl.worst_collection(**SEARCH, checkpoint=path, progress=stop_at(2))
    before = path.read_bytes()
    with pytest.raises(FileNotFoundError, match=r"there is no folder .* for the checkpoint"):
        fl.worst_collection(**SEARCH, checkpoint=tmp_path / "no" / "state")
    with pytest.raises(FileExistsError, match="go on from it with resume=True, or remove it"):
        fl.worst_collection(**SEARCH, checkpoint=path)
    for change in ({"seed": 1}, {"k": 11}, {"schedule": s.increasing(2.0)}, {"n_starts": 6}, {"n_features": 2}):
        with pytest.raises(ValueError, match="checkpoint of another search; give the same arguments"):
            fl.worst_collection(**{**SEARCH, **change}, checkpoint=path, resume=True)
    assert path.read_bytes() == before
    for content in (b"", before[:200], b"hello"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="state is damaged or no checkpoint"):
            fl.worst_collection(**SEARCH, checkpoint=path, resume=True)
    np.savez(tmp_path / "other.npz", key=np.array("x"))
    path.write_bytes((tmp_path / "other.npz").read_bytes())
    with pytest.raises(ValueError, match="state is damaged or no checkpoint"):
        fl.worst_collection(**SEARCH, checkpoint=path, resume=True)


# Files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [*registry.SCHEDULES, *registry.FILTERS], ids=registry.name)
def test_schedules_survive_a_file(schedule):
    k = schedule.horizon or 12 if isinstance(schedule, fl.Filter) else 12
    back = from_plain(json.loads(json.dumps(to_plain(schedule, k))))
    assert s.resolve(back, k, 1.0) == s.resolve(schedule, k, 1.0)


def test_a_schedule_around_a_function_is_resolved():
    back = from_plain(to_plain(s.unregularized_first(registry.linear), 5))
    assert back == fl.Ridge([0.0, 2.0, 3.0, 4.0, 5.0])


def test_save_and_load(small, tmp_path):
    for name, found in small.items():
        found.save(tmp_path / name)
        back = fl.WorstCollection.load(tmp_path / name)
        assert same(back, found)
        assert (back.k, back.command, back.schedule) == (found.k, found.command, found.schedule)
        assert repr(back) == repr(found)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(small)


DAMAGE = [
    (lambda d: [d], "does not hold a worst collection"),
    (lambda d: {**d, "format": "other"}, "does not hold a worst collection"),
    (lambda d: {**d, "version": 2}, "version is 2, not 1"),
    (lambda d: {key: value for key, value in d.items() if key != "rows"}, "rows is missing"),
    (lambda d: {**d, "value": d["value"] * (1 + 1e-8)}, "some number was changed"),
    (lambda d: {**d, "counts": [c + 1 for c in d["counts"]]}, "some number was changed"),
    (lambda d: {**d, "counts": d["counts"][1:]}, "positive integers"),
    (lambda d: {**d, "counts": [c + 0.5 for c in d["counts"]]}, "positive integers"),
    (lambda d: {**d, "counts": [10**9 for _ in d["counts"]]}, "sum at most"),
    (lambda d: {**d, "rows": [[float("nan") for _ in row] for row in d["rows"]]}, "finite table"),
    (lambda d: {**d, "rows": d["rows"][0]}, "finite table"),
    (lambda d: {**d, "rows": [[0.0] * len(row) for row in d["rows"]]}, "must have norm 1, got 0"),
    (lambda d: {**d, "rows": [d["rows"][0][::-1], *d["rows"][1:]]}, "some number was changed"),
    (lambda d: {**d, "k": "16"}, "k must be an integer"),
    (lambda d: {**d, "value": -1.0}, "value must be positive"),
    (lambda d: {**d, "schedule": {"kind": "Falling"}}, "must name one of Ridge"),
    (lambda d: {**d, "schedule": 3}, "must name one of Ridge"),
    (lambda d: {**d, "schedule": {"kind": "Ridge", "strength": 1.0}}, "wrong parameters"),
]


@pytest.mark.parametrize(("change", "message"), DAMAGE)
def test_damaged_files_are_refused(change, message, small, tmp_path):
    path = tmp_path / "found.json"
    path.write_text(json.dumps(change(small["increasing"].to_dict())))
    with pytest.raises(ValueError, match=f"found.json is damaged or foreign: .*{message}"):
        fl.WorstCollection.load(path)


def test_other_files_are_refused(small, tmp_path):
    for content in (b"", b"\xff\xfe", b"{", b"k,loss\n"):
        (tmp_path / "x.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.json is damaged or foreign"):
            fl.WorstCollection.load(tmp_path / "x.json")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        fl.WorstCollection.load(tmp_path / "y.json")
    with pytest.raises(FileNotFoundError, match="is a folder"):
        fl.WorstCollection.load(tmp_path)
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        small["none"].save(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        small["none"].save(tmp_path / "no" / "x.json")


# What is shipped --------------------------------------------------------------------------------------------------

REFERENCE = {
    ("none", 64): 0.2126, ("none", 256): 0.2133,
    ("fixed", 64): 0.445, ("fixed", 256): 0.573,
    ("increasing", 64): 0.952, ("increasing", 256): 0.979,
}  # fmt: skip


@pytest.mark.parametrize(("name", "k"), REFERENCE)
def test_shipped_collections_have_their_values(name, k):
    """By a plain loop over d × d matrices, and not below the values known before."""
    found = fl.worst_known(name, k)
    filter_ = s.resolve(SMALL[name], k, 1.0)
    p, rows = found.probabilities, found.rows
    V = (rows.T * p) @ rows
    for t in range(k, 0, -1):
        columns = [literal.step_of(filter_)] * len(rows)
        maps = [
            np.stack([step(e, row[None], np.zeros(1), t) for e in np.eye(rows.shape[1])], axis=1)
            for step, row in zip(columns, rows, strict=True)
        ]
        V = sum(weight * L.T @ V @ L for weight, L in zip(p, maps, strict=True))
    assert 0.5 * k * np.linalg.eigvalsh(V)[-1] == pytest.approx(found.value, rel=1e-9)
    assert np.linalg.norm(rows, axis=1).max() == pytest.approx(1.0, abs=1e-12)
    assert round(found.value, 4 if name == "none" else 3) >= REFERENCE[name, k]
    assert found.command.startswith(f"forgetless worst-collection --schedule {name} --k {k} ")
    assert rows.shape[1] <= 6
    assert len(rows) <= 8
    for constant in found.constants:
        assert constant.value >= found.value if constant.kind == "upper" else constant.value <= found.value


@pytest.mark.long
@pytest.mark.parametrize("name", ["none", "fixed", "increasing"])
def test_recorded_commands_find_what_is_shipped(name, tmp_path):
    shipped = fl.worst_known(name, 64)
    assert cli.main([*shipped.command.split()[1:], "--out", str(tmp_path / "found.json")]) == 0
    assert fl.WorstCollection.load(tmp_path / "found.json").value >= shipped.value * (1 - 1e-4)


# Bad input --------------------------------------------------------------------------------------------------------

BAD = [
    ({"k": 0}, ValueError, "k must be at least 1, got 0"),
    ({"k": 2.5}, TypeError, "k must be an integer"),
    ({"n_features": 0}, ValueError, "n_features must be at least 1, got 0"),
    ({"n_tasks": 0}, ValueError, "n_tasks must be at least 1, got 0; 3 to 8 are enough"),
    ({"n_starts": 0}, ValueError, "n_starts must be at least 1"),
    ({"n_rounds": True}, TypeError, "n_rounds must be an integer"),
    ({"seed": None}, TypeError, "seed must be an integer of at least 0, got None"),
    ({"starts": "good"}, ValueError, 'starts must be "mixed", "random" or "rare", got \'good\''),
    ({"starts": "rare", "n_tasks": 2}, ValueError, 'and n_tasks ≥ 3, got 4 and 2; use starts="random"'),
    ({"resume": True}, ValueError, "give it as checkpoint=path"),
    ({"schedule": 0.5}, TypeError, "wrap a coefficient"),
    ({"schedule": s.fixed(), "k": 2}, ValueError, "k must be at least 3"),
    ({"schedule": fl.Ridge([1.0])}, ValueError, "gives 1 steps but k is 8"),
    ({"schedule": fl.GradientDescent(3, 2.5)}, ValueError, "makes the error grow"),
    ({"schedule": fl.Ridge(1.0), "k": 10**8}, MemoryError, "use fewer starts or a smaller k"),
    ({"schedule": fl.Projection(), "n_tasks": 1, "n_starts": 2}, ValueError, "the loss vanishes at all 2 starts"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "kind", "message"), BAD, ids=[repr(case[0]) for case in BAD])
def test_bad_input(change, kind, message):
    with pytest.raises(kind, match=message):
        fl.worst_collection(**{"schedule": s.increasing(), "k": 8, **change})


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of fixed-256, .*, got 'rising' and 64; search for others"):
        fl.worst_known("rising", 64)
    with pytest.raises(ValueError, match="got 'fixed' and 65"):
        fl.worst_known("fixed", 65)


# The command ------------------------------------------------------------------------------------------------------

WORDS = ["worst-collection", "--k", "10", "--features", "3", "--tasks", "4", "--starts", "5", "--rounds", "60"]


def run(capsys, *words):
    code = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_finds_prints_and_saves(tmp_path, capsys):
    code, out, err = run(capsys, *WORDS, "--out", tmp_path / "found.json")
    assert (code, err) == (0, "")
    found = fl.WorstCollection.load(tmp_path / "found.json")
    expected = fl.worst_collection(**SEARCH)
    assert same(found, expected)
    assert found.command == "forgetless worst-collection --schedule increasing" + " ".join(
        ["", *WORDS[1:], "--kind", "mixed", "--seed", "0"]
    )
    assert out == repr(found) + "\n"
    code, out, _ = run(capsys, *WORDS, "--json")
    plain = json.loads(out)
    assert code == 0
    assert plain["constants"][-1]["kind"] == "lower"
    assert same(fl.WorstCollection.from_dict(plain), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


def test_an_interrupted_command_can_be_resumed(tmp_path, capsys, monkeypatch):
    out = tmp_path / "found.json"
    with monkeypatch.context() as patch:
        search = fl.worst_collection
        patch.setattr(fl, "worst_collection", lambda *a, **b: search(*a, **{**b, "progress": stop_at(5)}))
        code, _, err = run(capsys, *WORDS, "--out", out)
    assert code == 130
    assert "interrupted" in err
    assert "--resume" in err
    assert [path.name for path in tmp_path.iterdir()] == ["found.json.checkpoint"]
    code, _, err = run(capsys, *WORDS, "--out", out)
    assert code == 1
    assert "go on from it" in err
    assert run(capsys, *WORDS, "--out", out, "--resume")[0] == 0
    assert same(fl.WorstCollection.load(out), fl.worst_collection(**SEARCH))
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


def test_wrong_use_of_the_command(tmp_path, capsys):
    assert run(capsys, *WORDS, "--resume")[0] == 2
    code, _, err = run(capsys, *WORDS, "--out", tmp_path / "no" / "x.json")
    assert code == 1
    assert "there is no folder" in err
    code, _, err = run(capsys, *WORDS, "--schedule", "rising")
    assert code == 2
    assert run(capsys, "worst-collection", "--k", "2", "--schedule", "fixed")[0] == 1
