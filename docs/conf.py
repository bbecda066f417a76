"""How the documentation site is built by ``make docs``; nothing is loaded from the network, now or by a reader."""

import re
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
from sphinx.application import Sphinx
from sphinx_gallery.sorting import ExplicitOrder

import forgetless

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts of the gallery import papers/

project = "forgetless"
author = "The forgetless developers"
copyright = author
version = release = forgetless.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
# The pages of execution times load scripts from a network.
exclude_patterns = ["joss/*", "gallery/*", "_build", "**/sg_execution_times.rst", "sg_execution_times.rst"]
templates_path = ["_templates"]
nitpicky = False
# The settings of the gallery hold a function, so that they cannot be compared with those of the last build.
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
# Classes of results, described on the pages of the functions that return them.
autosummary_context = {
    "returned": {
        "forgetless.expect": ["forgetless.lab.results.Curves"],
        "forgetless.loss_gradient": ["forgetless.lab.gradient.LossGradient"],
        "forgetless.advise": ["forgetless.advice.Advice", "forgetless.advice.Option"],
        "forgetless.optimal_schedule": ["forgetless.advice.optimal.OptimalSchedule"],
        "forgetless.compare_bounds": [
            "forgetless.theory.records.BoundComparison",
            "forgetless.theory.records.BoundComparisons",
            "forgetless.theory.records.BoundCheck",
        ],
        "forgetless.upper_bound": ["forgetless.theory.upper.UpperBound"],
        "forgetless.oracle_bound": ["forgetless.theory.oracle.OracleBound"],
        "forgetless.theory.surrogate": ["forgetless.theory.Surrogate"],
        "forgetless.theory.check_reduction": ["forgetless.theory.reduction.ReductionCheck"],
        "forgetless.evaluate_stream": ["forgetless.estimators.evaluation.StreamResult"],
        "forgetless.torch.search": ["forgetless.torch.Search"],
    }
}
autodoc_mock_imports = ["torch"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "forgetless"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
# Summaries of what a search finds are fetched from pages, which browsers refuse where these are files.
html_show_search_summary = False
toc_object_entries_show_parents = "hide"
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "header_links_before_dropdown": 5,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "use_edit_page_button": False,
}
# Pages at the top have no pages below them that a list on the left could show.
html_sidebars: dict[str, list[str]] = {"*": []}
html_context = {"default_mode": "auto"}
# Fetched by make docs from npm, with its hash checked; from a page's own folder, so that it also works from a file.
mathjax_path = "mathjax/tex-svg.js"


def _look(_: dict[str, object], __: str) -> None:
    """Give every script of the gallery the same plain look, whatever the one before it did."""
    mpl.rcdefaults()
    mpl.rcParams |= {"figure.dpi": 110, "savefig.dpi": 110, "axes.spines.top": False, "axes.spines.right": False}
    mpl.rcParams |= {
        "figure.constrained_layout.use": True,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "figure.figsize": (5.6, 3.6),
    }


sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "subsection_order": ExplicitOrder([f"gallery/{each}" for each in ("exact", "schedules", "bounds", "papers")]),
    "filename_pattern": "/plot_",
    "capture_repr": (),
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 3600,
    "reset_modules": (_look,),
    "only_warn_on_example_error": False,
    "abort_on_example_error": True,
}

warnings.filterwarnings("ignore", category=UserWarning, message=".*FigureCanvasAgg is non-interactive.*")


def _inside(_: Sphinx, __: str, source: list[str]) -> None:
    """Lead links to files above this folder, as a repository shows them, to their pages here."""
    source[0] = source[0].replace("](../CHANGELOG.md)", "](changelog.md)")


def _attributes(_: Sphinx, __: str, ___: str, ____: object, _____: object, lines: list[str]) -> None:
    """Quote words that end in an underscore, as attributes of estimators do: in a sentence they would be links."""
    for i, line in enumerate(lines):
        heading = " : " in line or re.fullmatch(r"[\w\s,*]*", line)
        if not heading and not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [re.sub(r"(?<![\w`.])([a-z]\w+_)(?![\w`{])", r"``\1``", part) for part in parts[::2]]
            lines[i] = "".join(parts)


def _explorer(app: Sphinx, error: Exception | None) -> None:
    """Put the explorer beside the pages: one file that needs nothing else."""
    if error is None:
        forgetless.explore(out=Path(app.outdir, "explore.html"), show=False)


def setup(app: Sphinx) -> None:
    """Connect what is done while pages are read, and after them."""
    app.connect("source-read", _inside)
    app.connect("autodoc-process-docstring", _attributes, priority=100)  # before numpydoc makes its own links
    app.connect("build-finished", _explorer)
