"""A frame of the explorer in Chromium: exact curve, exact gradient and both charts after a change of the schedule.

Needs what ``make test-browser`` needs; run by ``make bench-explorer``. As many frames come before those that are timed,
while the browser compiles.
"""

import os
import shutil
import statistics
import tempfile
from pathlib import Path

from forgetless.explorer.page import page
from playwright.sync_api import sync_playwright

CASES = [(2, 500), (5, 500), (10, 500), (2, 5000), (5, 5000)]
FRAMES = """async n => {
  const times = [];
  for (let i = 0; i < 2 * n; i++) {
    const before = App.frames;
    App.take({ preset: 'increasing', scale: 1 + i / 100 });
    while (App.frames === before) await new Promise(done => setTimeout(done, 0));
    if (App.now.slope === null) throw Error('no gradient');
    times.push(App.milliseconds);
  }
  return times.slice(n);
}"""


def main():
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    print(f"page without data: {len(page().encode()) / 1000:.0f} kB")
    print("rows a task, steps k: milliseconds a frame, d = 10, M = 10 (median, least, most)")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "explorer.html"
        file.write_text(page(), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for rows, k in CASES:
            tab = browser.new_page(viewport={"width": 1200, "height": 900})
            tab.goto(f"{file.as_uri()}#kind=random&d=10&M=10&rows={rows}&k={k}&p=increasing")
            times = tab.evaluate(FRAMES, 30 if k < 1000 else 10)
            print(f"{rows:3d} {k:5d}: {statistics.median(times):6.1f} {min(times):6.1f} {max(times):6.1f}")
            tab.close()
        browser.close()


if __name__ == "__main__":
    main()
