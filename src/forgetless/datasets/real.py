"""Real streams by name: tables by week, school or carrier, images class after class, words by section."""

from collections.abc import Callable
from functools import partial
from typing import Any

from forgetless._base import checks
from forgetless.datasets import _images, _tables, _words
from forgetless.datasets.stream import Stream

_MAKERS: dict[str, Callable[..., Stream]] = {
    **{name: partial(_tables.load, name) for name in _tables.TABLES},
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
        One of ``forgetless.datasets.STREAMS``.
    seed : int, default 0
        Draws the order of tasks that time does not order, which rows are held out, and random features.
    **options
        ``n_features`` of streams of images and words.

    Returns
    -------
    Stream

    Raises
    ------
    DataMissingError
        If the package that holds the data is not installed; the message says how to install it.

    Examples
    --------
    >>> from forgetless.datasets import load_stream
    >>> stream = load_stream("digits", n_features=100)
    >>> len(stream), stream.task, stream[0].X.shape
    (100, 'class', (14, 100))
    """
    maker = _MAKERS.get(name)
    if maker is None:
        raise ValueError(f"name must be one of {', '.join(STREAMS)}, got {name!r}")
    return maker(seed=checks.integer("seed", seed, 0, "any whole number from 0 will do"), **options)
