import hypothesis
import numpy as np
import pytest

# A test does not depend on the machine's speed.
hypothesis.settings.register_profile("forgetless", deadline=None)
hypothesis.settings.load_profile("forgetless")


@pytest.fixture
def rng(request):
    """A generator of its own for every test, from the test's name."""
    return np.random.default_rng(list(request.node.name.encode()))


@pytest.fixture
def campaign(request):
    """A function that notes what a campaign did; the notes of long ones are printed at the end of the run."""
    if request.node.get_closest_marker("long") is None:
        return lambda text: None
    return lambda text: request.node.user_properties.append(("campaign", text))


def pytest_terminal_summary(terminalreporter):
    passed = terminalreporter.stats.get("passed", [])
    notes = [text for report in passed for name, text in report.user_properties if name == "campaign"]
    if notes:
        terminalreporter.section("campaigns")
        for text in notes:
            terminalreporter.write_line(text)
