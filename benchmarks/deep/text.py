"""Text of this machine by domain, as bytes: Debian's and Python's own files, for the language model streams."""

import gettext
import glob
import gzip
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from deep.language import N_EVAL, N_TRAIN

SIZE = N_TRAIN + 2 * N_EVAL
FILES = {
    "python": ("/usr/lib/python3*/**/*.py",),
    "c": ("/usr/include/*.h", "/usr/include/linux/*.h", "/usr/include/x86_64-linux-gnu/**/*.h"),
    "man": ("/usr/share/man/man[1358]/*.gz",),
    "changelog": ("/usr/share/doc/*/changelog*.gz",),
    "perl": ("/usr/share/perl/**/*.pm",),
    "javascript": ("/usr/lib/node_modules/**/*.js", "/usr/share/nodejs/**/*.js"),
    "html": ("/usr/share/doc/**/*.html",),
    "json": ("/usr/lib/node_modules/**/*.json", "/usr/share/nodejs/**/*.json"),
}
LANGUAGES = ("de", "fr", "ru", "pl", "zh_CN", "ja", "sv", "tr", "vi", "es", "uk", "cs", "ko", "it", "nl", "pt_BR")
"""Translations of messages of installed programs."""


def domains() -> dict[str, bytes]:
    """Return the domains of which this machine has enough text, N_TRAIN + 2 N_EVAL bytes each."""
    rng, texts = random.Random(0), {}
    for name, patterns in FILES.items():
        texts[name] = _joined(patterns, _read, rng)
    for language in LANGUAGES:
        texts[language] = _joined((f"/usr/share/locale/{language}/LC_MESSAGES/*.mo",), _messages, rng)
    return {name: text[:SIZE] for name, text in texts.items() if len(text) >= SIZE}


def pack(out: Path) -> Path:
    """Write ``text.npz``: ``names`` and ``text`` (domains, bytes)."""
    texts = domains()
    out.mkdir(parents=True, exist_ok=True)
    stacked = np.stack([np.frombuffer(text, np.uint8) for text in texts.values()])
    np.savez_compressed(out / "text.npz", names=np.array(list(texts)), text=stacked)
    return out / "text.npz"


def _read(file: str) -> bytes:
    return gzip.open(file, "rb").read() if file.endswith(".gz") else Path(file).read_bytes()


def _messages(file: str) -> bytes:
    with open(file, "rb") as stream:
        catalogue = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
    texts = sorted(text for key, text in catalogue.items() if isinstance(text, str) and key)
    random.Random(0).shuffle(texts)
    return "\n".join(texts[:300]).encode()


def _joined(patterns: tuple[str, ...], read: Callable[[str], bytes], rng: random.Random, most: int = 20_000) -> bytes:
    """Return pieces of at most 20,000 bytes of files in a random order."""
    files = sorted({file for pattern in patterns for file in glob.glob(pattern, recursive=True)})
    rng.shuffle(files)
    pieces, total = [], 0
    for file in files:
        try:
            content = read(file)
        except (OSError, UnicodeDecodeError):  # links to nothing, catalogues in an unknown encoding
            continue
        if len(content) < 300:
            continue
        at = rng.randrange(max(1, len(content) - most))
        pieces.append(content[at : at + most])
        total += len(pieces[-1])
        if total > SIZE:
            break
    return b"\n".join(pieces)
