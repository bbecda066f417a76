"""Tables: one set of columns as text, CSV, HTML and a data frame."""

import math

import html5lib
import numpy as np
import pytest

from forgetless._table import Noted, Table, frame, html_table, render


@pytest.fixture
def table():
    columns = {
        "name": ["a", "longer <b>", "c"],
        "n": [1, None, np.int64(300)],
        "top\nvalue": [0.123456789, math.nan, -2.0],
        "ratio": [Noted(1.5, "×"), Noted(None, "×"), 20.0],
    }
    return Table("Title", columns, ("a fact & more", "1 < 2"), number=".3g", formats={"ratio": ".1f"})


def test_text_aligns_numbers_right_words_left_and_leaves_gaps_open(table):
    assert table.text().split("\n") == [
        "                   top",
        "name          n  value  ratio",
        "a             1  0.123   1.5×",
        "longer <b>    –      –     –",
        "c           300     -2  20.0",
    ]


def test_text_of_no_rows_is_the_head():
    assert Table("", {"a": [], "b": []}).text() == "a  b"


def test_html_shows_the_cells_of_the_text_escaped(table):
    body = table._repr_html_()
    assert html_table(table) in body
    page = render("page.html", title="a < b \x1b").replace("</main>", f"{body}</main>")
    html5lib.HTMLParser(strict=True).parse(page)
    assert r"<h1>a &lt; b \x1b</h1>" in page
    for cell in (
        '<td class="n">0.123</td>',
        "<td>longer &lt;b&gt;</td>",
        '<td class="n">1.5×</td>',
        "<p>a fact &amp; more<br>1 &lt; 2</p>",
    ):
        assert cell in page


def test_frame_has_columns_of_numbers(table):
    made = table.to_frame()
    assert list(made["n"])[::2] == [1, 300]
    assert made["ratio"].dtype == np.float64
    assert frame({"x": np.arange(4).reshape(2, 2), "pair": [[1, 2]] * 4})["x"].tolist() == [0, 1, 2, 3]


def test_rows_and_choices_keep_how_numbers_are_shown(table):
    assert Table.of_rows("t", [{"x": 1, "y": 2}, {"x": 3, "y": 4}]).columns == {"x": [1, 3], "y": [2, 4]}
    part = table.where(name="c")
    assert part.rows() == [("c", 300, -2.0, 20.0)]
    assert part.text().endswith("20.0")
    assert part.facts == table.facts
