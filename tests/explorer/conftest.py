"""What tests of the explorer share: the assets, and where there is one a browser."""

import os
import shutil
from pathlib import Path

import pytest

import forgetless

ASSETS = Path(forgetless.__file__).parent / "explorer" / "assets"


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, or the one that CHROMIUM names; nothing is downloaded."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "no Chromium was found; install it (apt-get install chromium) or name it in CHROMIUM"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()
