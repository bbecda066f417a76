"""Streams of images: class after class, pixels permuted, pictures turned; random features make them wide."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._validate import Floats
from streams.data.idx import read_idx
from streams.data.packaged import DataMissingError
from streams.data.stream import RandomFeatures, Stream, Task

FOLDER = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package puts the files."""

TEST_ROWS = 300


def fashion(how: str, seed: int, n_features: int = 5000, folder: Path = FOLDER) -> Stream:
    """Return Fashion-MNIST as a stream: ``how`` is "classes", "permuted" or "rotated"."""
    train, labels, test, truth = _images(folder)
    rng, features = np.random.default_rng([seed, 7]), RandomFeatures(train.shape[1], n_features, seed)
    source, title = "Debian dataset-fashion-mnist", f"Fashion-MNIST, {how}"
    if how == "classes":
        order = rng.permutation(10)
        return _by_class(title, source, features, (train, labels, test, truth), order, [1000] * 10, 1)
    n_tasks = 20
    seeds = rng.integers(2**32, size=n_tasks)

    def change(t: int) -> Callable[[Floats], Floats]:
        if how == "rotated":
            return lambda X: _turned(X, 180.0 * t / n_tasks)
        places = np.random.default_rng(seeds[t]).permutation(train.shape[1]) if t else np.arange(train.shape[1])
        return lambda X: X[:, places]

    def make(t: int) -> Task:
        own = np.random.default_rng([seed, 8, t])
        learned, held = (own.choice(len(x), n, replace=False) for x, n in ((train, 500), (test, TEST_ROWS)))
        seen = change(t)
        return Task(features(seen(train[learned])), labels[learned], features(seen(test[held])), truth[held])

    return Stream(title, source, "classes", "view", False, n_tasks, n_features, make)


def digits(seed: int, n_features: int = 2000) -> Stream:
    """Return scikit-learn's digits, class after class in small tasks."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = (X - X.mean()) / X.std()
    rng = np.random.default_rng([seed, 7])
    mixed, order = rng.permutation(len(X)), rng.permutation(10)
    held, learned = mixed[:400], mixed[400:]
    data = X[learned], y[learned], X[held], y[held]
    features = RandomFeatures(X.shape[1], n_features, seed)
    rows = [int(np.sum(data[1] == c)) for c in range(10)]
    return _by_class("digits, classes", "scikit-learn", features, data, order, rows, 10)


def _by_class(
    title: str,
    source: str,
    features: RandomFeatures,
    data: tuple[Floats, NDArray[Any], Floats, NDArray[Any]],
    order: NDArray[np.int64],
    rows: list[int],
    parts: int,
) -> Stream:
    """Return a stream of ``parts`` tasks for every class in turn; held out are all test rows of the class."""
    train, labels, test, truth = data

    def make(t: int) -> Task:
        c = order[t // parts]
        own = np.flatnonzero(labels == c)[: rows[c]]
        learned = np.array_split(own, parts)[t % parts]
        held = np.flatnonzero(truth == c)[:TEST_ROWS]
        return Task(features(train[learned]), labels[learned], features(test[held]), truth[held])

    return Stream(title, source, "classes", "class", False, len(order) * parts, features.n_features, make)


def _images(folder: Path) -> tuple[Floats, NDArray[Any], Floats, NDArray[Any]]:
    found = []
    for part in ("train", "t10k"):
        try:
            images, classes = (read_idx(folder / f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
        except FileNotFoundError as error:
            raise DataMissingError(
                f"there is no {error.filename}; Fashion-MNIST is in Debian's package: "
                "apt-get install dataset-fashion-mnist"
            ) from None
        found.append((images.reshape(len(images), -1) / 255.0, classes.astype(np.int64)))
    (train, labels), (test, truth) = found
    center, unit = train.mean(), train.std()
    return (train - center) / unit, labels, (test - center) / unit, truth


def _turned(X: Floats, angle: float) -> Floats:
    from scipy.ndimage import rotate

    side = int(np.sqrt(X.shape[1]))
    pictures = X.reshape(-1, side, side)
    turned = rotate(pictures, angle, axes=(1, 2), reshape=False, order=1, cval=float(X.min()))
    return np.asarray(turned.reshape(len(X), -1))
