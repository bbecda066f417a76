"""Pages in a real browser that notice what they must not do: errors, warnings, requests."""

import os
import shutil
import time

import pytest

import forgetless as fl


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


class Opened:
    """A page, what it said, and where it wanted to go."""

    def __init__(self, tab):
        self.tab, self.said, self.asked = tab, [], []
        tab.on("console", lambda message: self.said.append(message.text))
        tab.on("pageerror", lambda error: self.said.append(str(error)))
        tab.on("request", lambda request: self.asked.append(request.url))

    def open(self, address):
        self.tab.goto(address)
        self.until("window.App && App.frames > 0")
        return self

    def until(self, expression, seconds=30):
        """Wait; not by playwright's own way, which evaluates text inside the page, where its policy forbids that."""
        end = time.monotonic() + seconds
        while not self.tab.evaluate(expression):
            assert time.monotonic() < end, f"{expression}: not within {seconds} s; {self.said}"
            time.sleep(0.005)

    def loss(self):
        return self.tab.evaluate("App.now.loss[App.state.k]")

    def settle(self):
        self.until("App.settled", 90)

    def changed(self, act):
        """Do something and wait for the frame after it."""
        before = self.tab.evaluate("App.frames")
        act()
        self.until(f"App.frames > {before}")

    def code(self):
        self.tab.click("#code")
        return self.tab.input_value("#out")

    def outside(self):
        return [url for url in self.asked if not url.startswith(("file:", "data:", "blob:"))]


@pytest.fixture(scope="session")
def file(tmp_path_factory):
    return fl.explore(out=tmp_path_factory.mktemp("page") / "explorer.html", show=False).as_uri()


@pytest.fixture
def opened(browser, file):
    """Opens the page at a state; at the end nothing was said and nothing left."""
    pages = []

    def make(state="", width=1200, height=900, address=file, **more):
        context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True, **more)
        pages.append((context, Opened(context.new_page())))
        return pages[-1][1].open(f"{address}#{state}")

    yield make
    for context, page in pages:
        context.close()
        assert page.said == []
        assert page.outside() == []
