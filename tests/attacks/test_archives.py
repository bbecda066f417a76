"""Files from strangers: whatever they hold, the answer is one named error or a model that works."""

import subprocess
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from scipy import sparse

import forgetless as fl
from attacks.archives import archive, distortions, hostile, npy, opened, resealed
from forgetless._base import archive as reader
from forgetless.datasets.files import load_tasks
from support.campaigns import SEED, seed_for

HELD = {"holdout": 0.5, "random_state": 0}

MODELS = {
    "ridge": (fl.ContinualRidge(0.3, fit_intercept=True), np.asarray),
    "held": (fl.ContinualRidge(schedule="increasing", n_tasks=99, **HELD), np.asarray),
    "sparse": (fl.ContinualRidge(**HELD), sparse.csr_array),
    "auto": (fl.ContinualRidge(schedule="auto"), np.asarray),
    "budget": (fl.ContinualGD(3, schedule="increasing", n_tasks=99), np.asarray),
    "joint": (fl.JointRidge(0.2, fit_intercept=True), np.asarray),
    "rls": (fl.RecursiveLeastSquares(0.2), np.asarray),
    "classes": (fl.ContinualRidgeClassifier(), np.asarray),
}


def tasks(seed, kind=np.asarray):
    rng = np.random.default_rng(seed)
    return [(kind(rng.standard_normal((4, 3))), rng.standard_normal(4)) for _ in range(4)]


def labelled(model, y):
    return (np.where(y > 0, "u", "v"), ["u", "v"]) if isinstance(model, fl.ContinualRidgeClassifier) else (y,)


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


def meet(path, kind):
    """Load a model and use it; return what became of it. Whatever else happens is a defect."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = kind.load(path)
    except fl.FileError:
        return "refused"
    X, y = tasks(1)[0]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert len(model.predict(X)) == 4
            assert len(repr(model.history_)) + model.nbytes_ > 0
            before = model.coef_.copy()
            model.partial_fit(X, *labelled(model, y)[:1])
            assert np.isfinite(model.coef_).all()
            model.save(path)
            kind.load(path)
    except (ValueError, OverflowError, fl.ConvergenceError):  # weights of 1e300, say: refused, and nothing changed
        np.testing.assert_array_equal(model.coef_, before)
        return "loaded, then refused to learn"
    return "loaded and learned"


CORPUS = dict(hostile())


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_archives_are_refused_in_little_memory(tmp_path, name):
    path = tmp_path / "bad.npz"
    path.write_bytes(CORPUS[name])
    readers = [
        lambda: fl.ContinualRidge.load(path),
        lambda: load_tasks(path),
        lambda: reader.read_arrays(path, "plain .npz", kinds="biufUSmM", compressed=True),
        lambda: fl.WorstCollection.load(path),
        lambda: fl.worst_collection(fl.Ridge(1.0), 4, checkpoint=path, resume=True, n_starts=1, n_rounds=1),
    ]
    tracemalloc.start()
    try:
        for read in readers:
            with pytest.raises(fl.FileError, match=r"bad\.npz"):
                read()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4e6 + 20 * len(CORPUS[name])


def test_the_directory_alone_is_reason_to_refuse():
    """Before anything is opened, where the zip library would refuse some of these later, or an older one would not."""

    def listed(**changes):
        info = zipfile.ZipInfo(changes.pop("filename", "X.npy"))
        info.file_size = info.compress_size = 600
        for name, value in changes.items():
            setattr(info, name, value)
        return info

    assert reader._check_members([listed()], 1000, compressed=False) == 600
    for members, words in (
        ([listed(), listed(filename="Y.npy")], "larger than the file"),
        ([listed(flag_bits=1)], "encrypted"),
        ([listed(), listed()], "the same name"),
        ([listed(file_size=601)], "contradict each other"),
        ([listed(compress_type=zipfile.ZIP_DEFLATED)], "compressed"),
    ):
        with pytest.raises(ValueError, match=words):
            reader._check_members(members, 1000, compressed=False)


@pytest.mark.parametrize("megabytes", [64, pytest.param(2048, marks=pytest.mark.long)])
def test_a_compressed_file_takes_at_most_a_hundred_times_its_size(tmp_path, rng, megabytes):
    path = tmp_path / "tasks.npz"
    # 2 MB that would become 2 GiB, say: refused before anything is read.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("X.npy", "w", force_zip64=True) as member:
        member.write(npy(header={"descr": "<f8", "fortran_order": False, "shape": (megabytes * 2**17,)}))
        for _ in range(megabytes):
            member.write(bytes(2**20))
    assert 1000 * megabytes < path.stat().st_size < 1100 * megabytes
    tracemalloc.start()
    try:
        with pytest.raises(fl.FileError, match="more than 100 times as many; save it with numpy"):
            load_tasks(path)
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()
    X = rng.standard_normal((40, 3)).round(1)
    np.savez_compressed(path, X=X, y=X @ np.ones(3), groups=np.repeat(np.arange("2020", "2030", dtype="M8[Y]"), 4))
    assert load_tasks(path).n_tasks == 10


@pytest.mark.parametrize(
    "name", ["predict", "sparse", *(pytest.param(name, marks=pytest.mark.long) for name in MODELS)]
)
def test_every_array_of_a_model_is_checked_even_if_the_hash_was_made_anew(stored, tmp_path, name, campaign):
    kind, content = stored[name]
    path, outcomes = tmp_path / "m.npz", {}
    header, arrays = opened(content)
    for array, value in arrays.items():
        changes = [{other: value for other, value in arrays.items() if other != array}]
        changes += [{**arrays, array: new} for new in distortions(value)]
        changes.append({**arrays, array + ".more": np.zeros(2)})
        for changed in changes:
            path.write_bytes(reader.pack(header, changed))
            outcome = meet(path, kind)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert outcomes["refused"] > 80
    campaign(f"{name}: {sum(outcomes.values())} forged files: {outcomes}")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(stored, tmp_path, value):
    path, seen = tmp_path / "m.npz", set()
    for kind, content in stored.values():
        header, arrays = opened(content)
        for name, array in arrays.items():
            # Of a history some columns are not known for every task; nothing is computed from them.
            if array.dtype.kind != "f" or not array.size or (name.startswith("state.history.") and "preq" not in name):
                continue
            if name == "state.advisor.coefficient" and np.isnan(value):  # before two tasks were seen
                continue
            wrong = array.copy()
            wrong.reshape(-1)[-1] = value
            path.write_bytes(reader.pack(header, {**arrays, name: wrong}))
            with pytest.raises(fl.FileError, match=r"is not finite|is below"):
                kind.load(path)
            seen.add(name)
    assert seen >= {
        f"state.{name}" for name in ("coef", "intercept", "radius", "holdout.X", "holdout.data", "holdout.y")
    }
    assert seen >= {f"state.memory.{name}" for name in ("gram_", "moment_", "inverse_", "energy_")}


def test_held_out_rows_must_be_there_and_belong_to_tasks(stored, tmp_path):
    path = tmp_path / "m.npz"
    kind, content = stored["held"]
    header, arrays = opened(content)
    counts = arrays["state.holdout.counts"]
    assert counts.tolist() == [2, 2, 2, 2]
    without = {name: array for name, array in arrays.items() if ".holdout." not in name}
    for changed, words in (
        (without, "which its held-out rows contradict"),
        ({**arrays, "state.holdout.counts": np.array([4, 0, 2, 2])}, "holdout.counts is below 1"),
        ({**arrays, "state.holdout.tasks": np.array([0, 1, 2, 4])}, "holdout.tasks is above 3"),
        ({**arrays, "state.holdout.counts": np.array([2, 2, 2, 3])}, "holdout.y has the shape"),
    ):
        path.write_bytes(reader.pack(header, changed))
        with pytest.raises(fl.FileError, match=words):
            kind.load(path)


HEADERS = [
    {"class": "advise"},
    {"class": 3},
    {"class": ["ContinualRidge"]},
    {"parameters": []},
    {"parameters": {"alpha": "one"}},
    {"parameters": {"alpha": [1.0]}},
    {"parameters": {"alpha": -1.0}},
    {"parameters": {"fit_intercept": None}},
    {"parameters": {"self": 1}},
    {"parameters": {"__class__": 1}},
    {"parameters": {"history_size": -5}},
    {"parameters": {"schedule": {"kind": "os.system"}}},
    {"parameters": {"schedule": {"kind": "Ridge", "coefficient": float("nan")}}},
    {"parameters": {"schedule": {"kind": "Ridge", "coefficient": [[1.0]]}}},
    {"parameters": {"schedule": "no-such"}},
    {"state": "predict"},
    {"version": True},
    {"version": "3"},
    {"format": None},
]


@pytest.mark.parametrize("change", HEADERS, ids=str)
def test_headers_are_checked(stored, tmp_path, change):
    kind, content = stored["ridge"]
    path = tmp_path / "m.npz"

    def changed(header, arrays):
        if "parameters" in change and isinstance(change["parameters"], dict):
            return {**header, "parameters": {**header["parameters"], **change["parameters"]}}, arrays
        return {**header, **change}, arrays

    path.write_bytes(resealed(content, changed))
    with pytest.raises(fl.FileError, match=r"m\.npz"):
        kind.load(path)


def test_a_header_nested_without_end_is_refused(stored, tmp_path):
    kind, content = stored["ridge"]
    path = tmp_path / "m.npz"
    deep = b'{"format": ' * 100_000
    with np.load(tmp_path_of(path, content)) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["header"] = np.frombuffer(deep, dtype=np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(fl.FileError, match="not a forgetless model"):
        kind.load(path)
    (tmp_path / "deep.json").write_bytes(b"[" * 200_000)
    with pytest.raises(fl.FileError, match="nested too deeply"):
        fl.WorstCollection.load(tmp_path / "deep.json")


def tmp_path_of(path, content):
    path.write_bytes(content)
    return path


def test_every_array_of_a_checkpoint_is_checked_even_if_the_hash_was_made_anew(tmp_path):
    path, calls = tmp_path / "c", 0

    def stop(*_):
        raise KeyboardInterrupt

    search = {"schedule": fl.Ridge(1.0), "k": 4, "n_starts": 2, "n_tasks": 3, "n_features": 2, "n_rounds": 2}
    with pytest.raises(KeyboardInterrupt):
        fl.worst_collection(**search, checkpoint=path, progress=stop)
    header, arrays = opened(path.read_bytes())
    for name, value in arrays.items():
        for wrong in (
            value[None],
            value.reshape(-1)[:0],
            value.astype("U4"),
            value.astype(complex),
            -1 - value.astype(int),
        ):
            path.write_bytes(reader.pack(header, {**arrays, name: wrong}))
            with pytest.raises(fl.FileError, match="c is damaged or not a checkpoint file"):
                fl.worst_collection(**search, checkpoint=path, resume=True)
            calls += 1
        path.write_bytes(reader.pack(header, {other: value for other, value in arrays.items() if other != name}))
        assert "is missing" in fl.describe_file(path).problem
    for key in (None, 3, "x", "[1, 2, 3, -4]", '[1, 2, 3, "a"]', "[" * 9000):
        path.write_bytes(reader.pack({**header, "key": key}, arrays))
        assert "damaged or not a checkpoint" in fl.describe_file(path).problem
    assert calls == 55


# --- the hash ---


def test_names_dtypes_shapes_and_values_are_all_under_the_hash(stored, tmp_path):
    """Each change leaves the bytes of all others as they were."""
    _, content = stored["joint"]
    path = tmp_path_of(tmp_path / "m.npz", content)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    gram, coef = arrays["state.memory.gram_"], arrays["state.coef"]
    others = {name: array for name, array in arrays.items() if name != "state.memory.gram_"}
    changes = {
        "value": {**arrays, "state.memory.gram_": np.nextafter(gram, np.inf)},
        "one bit": {**arrays, "state.coef": np.concatenate([coef[:-1], np.nextafter(coef[-1:], 9)])},
        "name": {**others, "state.memory.gram": gram},
        "dtype": {**arrays, "state.memory.gram_": gram.view(np.int64)},
        "shape": {**arrays, "state.memory.gram_": gram.reshape(2, 8)},
        "order of the sides": {**arrays, "state.memory.gram_": np.asfortranarray(gram + np.arange(4.0))},
        "missing": others,
        "more": {**arrays, "state.memory.more": np.zeros(0)},
        "header": {**arrays, "header": np.append(arrays["header"], np.uint8(32))},
        "no hash": {name: array for name, array in arrays.items() if name != "sha256"},
    }
    for what, changed in changes.items():
        np.savez(path, **changed)
        with pytest.raises(fl.FileError, match="do not match their hash"):
            pytest.fail(f"{what}: {fl.JointRidge.load(path)}")
    np.savez(path, **dict(reversed(arrays.items())))  # the order of the members says nothing
    assert fl.JointRidge.load(path).gram_.tolist() == gram.tolist()


def test_digests_are_those_of_the_definition(stored, tmp_path):
    import hashlib

    a, b = np.arange(6.0).reshape(2, 3), np.array("ü")
    text = b"a|<f8|(2, 3)|" + a.tobytes() + b"b|<U1|()|" + "ü".encode("utf-32-le")
    assert reader.digest({"b": b, "a": a}) == hashlib.sha256(text).digest()
    assert reader.digest({"a": np.asfortranarray(a), "b": b}) == hashlib.sha256(text).digest()


# --- flipped bits ---


@pytest.mark.parametrize("tries", [150, pytest.param(20_000, marks=pytest.mark.long)])
def test_damaged_files_are_refused_or_the_same(stored, tmp_path, tries, campaign):
    rng, counts = np.random.default_rng(seed_for(tries)), {}
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    names = list(stored)
    known = {}
    for number in range(tries):
        name = names[number % len(names)]
        kind, content = stored[name]
        broken = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            broken[int(rng.integers(len(broken)))] ^= 1 << int(rng.integers(8))
        if number % 10 == 9:
            broken = broken[: int(rng.integers(len(broken)))]
        bad.write_bytes(bytes(broken))
        try:
            model = kind.load(bad)
        except fl.FileError:
            counts["refused"] = counts.get("refused", 0) + 1
            continue
        if name not in known:
            good.write_bytes(content)
            known[name] = kind.load(good)
        np.testing.assert_array_equal(model.coef_, known[name].coef_)
        assert repr(model) == repr(known[name])
        counts["loaded the same"] = counts.get("loaded the same", 0) + 1
    assert counts["refused"] > tries / 2
    campaign(f"seed {SEED}: {tries} damaged model files: {counts}, 0 loaded otherwise")


@pytest.mark.parametrize("tries", [150, pytest.param(20_000, marks=pytest.mark.long)])
def test_damaged_worst_collections_are_refused_or_the_same(tmp_path, tries, campaign):
    rng, counts = np.random.default_rng(seed_for(tries)), {"refused": 0, "loaded the same": 0}
    known = fl.worst_known("none", 64)
    path = tmp_path / "w.json"
    known.save(path)
    content = path.read_bytes()
    for _ in range(tries):
        broken = bytearray(content)
        broken[int(rng.integers(len(broken)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(broken))
        try:
            found = fl.WorstCollection.load(path)
        except fl.FileError:
            counts["refused"] += 1
            continue
        assert found.to_dict() == known.to_dict()
        counts["loaded the same"] += 1
    assert counts["refused"] > 0.95 * tries
    campaign(f"seed {SEED}: {tries} bits flipped in a worst collection: {counts}, 0 loaded otherwise")


@pytest.mark.parametrize("tries", [100, pytest.param(20_000, marks=pytest.mark.long)])
def test_random_arrays_under_a_good_hash_do_no_harm(stored, tmp_path, tries, campaign):
    """Several arrays of a model replaced at random, then sealed anew."""
    rng, counts, path = np.random.default_rng(seed_for(tries)), {}, tmp_path / "m.npz"
    names = list(stored)
    for number in range(tries):
        kind, content = stored[names[number % len(names)]]

        def change(header, arrays):
            for _ in range(int(rng.integers(1, 4))):
                name = list(arrays)[int(rng.integers(len(arrays)))]
                with np.errstate(all="ignore"):
                    choice = list(distortions(arrays[name]))
                arrays[name] = choice[int(rng.integers(len(choice)))]
                if arrays[name].size and rng.random() < 0.5 and arrays[name].dtype.kind in "iuf":
                    flat = arrays[name].reshape(-1).copy()
                    flat.view(np.uint8)[int(rng.integers(flat.nbytes))] ^= 1 << int(rng.integers(8))
                    arrays[name] = flat.reshape(arrays[name].shape)

        path.write_bytes(resealed(content, change))
        outcome = meet(path, kind)
        counts[outcome] = counts.get(outcome, 0) + 1
    assert counts["refused"] > tries / 3
    campaign(f"seed {SEED}: {tries} forged model files: {counts}, 0 crashes")


# --- indices ---


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
@pytest.mark.parametrize("model", [fl.ContinualRidge(), fl.JointRidge(), fl.ContinualRidgeClassifier()], ids=str)
def test_sparse_rows_with_indices_outside_are_refused(model, format):
    y = np.array([1.0, -1.0, 1.0, -1.0])
    model = type(model)().fit(np.eye(4, 3) + 1, labelled(model, y)[0])
    before = model.coef_.copy()
    for call in (
        lambda: model.partial_fit(wild(format), labelled(model, y)[0]),
        lambda: model.partial_fit_blocks([(wild(format), labelled(model, y)[0])]),
        lambda: model.fit(wild(format), labelled(model, y)[0]),
        lambda: model.predict(wild(format)),
        lambda: fl.step(np.zeros(3), (wild(format), y), fl.Ridge(1.0)),
    ):
        with pytest.raises(ValueError, match="ind"):
            call()
    np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.parametrize("part", ["indices", "indptr"])
@pytest.mark.parametrize("value", [-1, 3, 2**31 - 1])
def test_sparse_rows_of_a_forged_model_are_never_multiplied(stored, tmp_path, part, value):
    kind, content = stored["sparse"]
    path = tmp_path / "m.npz"

    def change(header, arrays):
        name = f"state.holdout.{part}"
        arrays[name] = arrays[name].copy()
        arrays[name][1] = value if part == "indices" or value != 3 else 10**6
        if part == "indptr" and value == 3:
            arrays[name][-1] = 0

    path.write_bytes(resealed(content, change))
    with pytest.raises(fl.FileError, match=r"m\.npz is damaged or not a model file"):
        kind.load(path)


def test_no_pickle_is_ever_run(tmp_path):
    """A pickle that would leave a trace, under every name and in every place of an archive."""
    trace = tmp_path / "trace"
    code = f"""
import numpy as np, pickle, forgetless as fl
from forgetless.datasets.files import load_tasks
class Harm:
    def __reduce__(self): return open, ({str(trace)!r}, "w")
for name in ("header", "sha256", "X", "key", "state.coef"):
    np.savez("bad.npz", **{{name: np.array([Harm()], dtype=object)}})
    for read in (fl.ContinualRidge.load, load_tasks, fl.WorstCollection.load):
        try: read("bad.npz")
        except fl.FileError: continue
        raise SystemExit("read")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not trace.exists()


def test_numbers_of_another_byte_order_are_read(stored, tmp_path):
    kind, content = stored["ridge"]
    path = tmp_path_of(tmp_path / "m.npz", content)
    coef = kind.load(path).coef_
    swapped = resealed(content, lambda h, a: (h, {n: v.astype(v.dtype.newbyteorder("S")) for n, v in a.items()}))
    back = kind.load(tmp_path_of(path, swapped))
    assert back.coef_.tolist() == coef.tolist()
    assert back.coef_.dtype == np.float64
    back.partial_fit(*tasks(3)[0])


DATES = np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]").tolist()


@pytest.mark.parametrize("labels", [[1.0, 2.0], [False, True], ["v", "ü"], [3, 7], DATES], ids=str)
def test_labels_of_all_kinds_come_back(tmp_path, labels):
    model = fl.ContinualRidgeClassifier().fit(np.eye(2), np.array(labels, dtype="M8[D]" if labels is DATES else None))
    model.save(tmp_path / "m.npz")
    back = fl.ContinualRidgeClassifier.load(tmp_path / "m.npz")
    assert back.predict(np.eye(2)).tolist() == labels
    assert back.classes_.dtype == model.classes_.dtype


def test_archives_with_too_many_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "MOST_ARRAYS", 50)
    path = tmp_path_of(tmp_path / "m.npz", archive([(f"{i}.npy", npy(np.zeros(1))) for i in range(51)]))
    with pytest.raises(fl.FileError, match="51 arrays, more than 50"):
        fl.ContinualRidge.load(path)
