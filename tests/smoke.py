"""A first look at an installed package, outside of its sources: ``python smoke.py [WHEEL]``, run by ``make dist``."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import numpy as np

import forgetless as fl


def check_installed():
    assert Path(sys.prefix) in Path(fl.__file__).parents, f"{fl.__file__} is not the installed package"
    tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 1.0]], [1.0])])
    loss = fl.expect(tasks, fl.Projection(), k=3, metrics=["average_loss"]).average_loss
    np.testing.assert_allclose(loss, 0.5 * 0.5**3)  # half the chance that three draws miss a given task
    page = fl.explore(tasks, k=5, show=False)
    assert page.stat().st_size > 50_000  # the parts of the page are installed too
    page.unlink()
    shown = subprocess.run([sys.executable, "-m", "forgetless", "--help"], capture_output=True, text=True, check=True)
    assert "reproduce" in shown.stdout
    command = next(Path(sysconfig.get_path("scripts")).glob("forgetless*"))
    assert fl.__version__ in subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    print(f"forgetless {fl.__version__} works in {sys.prefix}")


def check_metadata(wheel):
    """Refuse what an index would refuse: fields that are unknown, malformed or of another version of the format."""
    from packaging.metadata import Metadata

    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Metadata.from_email(archive.read(name), validate=True)
        assert "forgetless/py.typed" in archive.namelist()
        assert "forgetless/explorer/assets/page/app.js" in archive.namelist()
        assert any(entry.startswith("forgetless/templates/") for entry in archive.namelist())
    assert (metadata.name, str(metadata.version)) == ("forgetless", fl.__version__)
    assert metadata.description.startswith("# forgetless")
    print(f"{Path(wheel).name}: valid metadata {metadata.metadata_version}")


if __name__ == "__main__":
    check_installed()
    for wheel in sys.argv[1:]:
        check_metadata(wheel)
