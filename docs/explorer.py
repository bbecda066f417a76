"""Makes docs/explorer.png: the page after a few strokes. ``.venv-browser/bin/python docs/explorer.py``."""

import io
import os
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import forgetless as fl

TARGET = Path(__file__).with_name("explorer.png")
STROKES = [(0.07, 0.16), (0.16, 0.45), (0.35, 0.52), (0.62, 0.5), (0.82, 0.42), (0.93, 0.25), (0.98, 0.17)]


def main() -> None:
    """Draw, wait until everything is computed, and save the page as a picture."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        file = fl.explore(out=Path(folder) / "explorer.html", show=False)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        tab.goto(f"{file.as_uri()}#angle=12&k=80")
        box = tab.locator("#draw").bounding_box()
        for i, (x, y) in enumerate(STROKES):
            tab.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=8)
            if i == 0:
                tab.mouse.down()
        tab.mouse.up()
        while not tab.evaluate("App.settled"):
            tab.wait_for_timeout(50)
        tab.evaluate("document.activeElement.blur()")
        picture = Image.open(io.BytesIO(tab.screenshot(scale="css", full_page=True)))
        # A few dozen colours and what lies between them: a third of the bytes.
        picture.convert("RGB").quantize(224).save(TARGET, optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
