"""Small data for the tests of the benchmark."""

import gzip

import numpy as np

from deep.data import Pool


def pictures(n, seed):
    """Return images of ten classes, each a pattern with noise, and their labels."""
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(0).integers(0, 200, (10, 28 * 28))
    labels = rng.integers(10, size=n).astype(np.uint8)
    noise = rng.integers(0, 56, (n, 28 * 28))
    return (patterns[labels] + noise).astype(np.uint8), labels


def pool():
    return Pool({part: pictures(300, seed) for seed, part in enumerate(("train", "val", "test"))})


def idx_files(folder):
    """Write the four files of an image collection, as they are published."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, part in enumerate(("train", "t10k")):
        images, labels = pictures(400, seed)
        for name, array in (("images-idx3", images.reshape(-1, 28, 28)), ("labels-idx1", labels)):
            raw = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(raw))
