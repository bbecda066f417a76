"""Real streams by name: tables by week, school or carrier, images class after class, words by section."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from forgetless import _validate as validate
from streams.data import images as _images
from streams.data import packaged_tables as _tables
from streams.data import text as _words
from streams.data.stream import RandomFeatures, Stream, Task


def _random_features(name: str, seed: int, n_features: int = 1000) -> Stream:
    """Return a table with random features of its columns: the same tasks, wide enough that memory matters."""
    stream = _tables.load(name, seed=seed).standardized()
    wide = RandomFeatures(stream.n_features, n_features, seed)
    made = stream.mapped(lambda task: Task(wide(task.X), task.y, wide(task.X_held), task.y_held), n_features)
    return replace(made, name=f"{stream.name}, random features")


_WIDENED = ("bikes", "houses", "glucose", "computers", "nox")

_MAKERS: dict[str, Callable[..., Stream]] = {
    **{name: partial(_tables.load, name) for name in _tables.TABLES},
    **{
        f"{name}-random": partial(_random_features, name) for name in ("bikes", "houses", "glucose", "computers", "nox")
    },
    "flights-wide": _words.wide_flights,
    "debian-size": partial(_words.debian, "size"),
    "debian-sections": partial(_words.debian, "sections"),
    "fashion-classes": partial(_images.fashion, "classes"),
    "fashion-permuted": partial(_images.fashion, "permuted"),
    "fashion-rotated": partial(_images.fashion, "rotated"),
    "digits": _images.digits,
}

STREAMS = tuple(_MAKERS)
"""Names that :func:`load_stream` takes."""


def load_stream(name: str, seed: int = 0, **options: Any) -> Stream:
    """Return a real stream by name, from data that come inside a package; nothing is downloaded.

    Parameters
    ----------
    name : str
        One of ``streams.data.STREAMS``.
    seed : int, default 0
        Draws the order of tasks that time does not order, which rows are held out, and random features.
    **options
        ``n_features`` of streams of images, words and random features.

    Returns
    -------
    Stream

    Raises
    ------
    DataMissingError
        If the package that holds the data is not installed; the message says how to install it.

    Examples
    --------
    >>> from streams.data import load_stream
    >>> stream = load_stream("digits", n_features=100)
    >>> len(stream), stream.task, stream[0].X.shape
    (100, 'class', (14, 100))
    """
    maker = _MAKERS.get(name)
    if maker is None:
        raise ValueError(f"name must be one of {', '.join(STREAMS)}, got {name!r}")
    return maker(seed=validate.integer("seed", seed, 0, "any whole number from 0 will do"), **options)
