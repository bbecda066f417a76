"""Papers of the field on fresh or finite tasks: a statement of each beside the number that
forgetless computes.
"""

from forgetless.reporting.progress import Progress, silent
from forgetless.reporting.table import Table
from forgetless.reproduce.field import (
    attia2025,
    banayeeanzade2025,
    ding2024,
    doan2021,
    drift,
    evron2022,
    goldfarb2024,
    hiratani2024,
    karpel2026,
    li2023,
    li2026,
    lin2023,
    swartworth2023,
    tsipory2025,
    zhao2025,
)
from forgetless.reproduce.field._statement import Statement

__all__ = ["PAPERS", "Statement", "drift", "field"]

PAPERS = (
    lin2023,
    karpel2026,
    zhao2025,
    ding2024,
    goldfarb2024,
    banayeeanzade2025,
    hiratani2024,
    li2023,
    li2026,
    evron2022,
    swartworth2023,
    attia2025,
    tsipory2025,
    doan2021,
)


def field(progress: Progress | None = None) -> Table:
    """Return statements of all papers: published, computed, their difference, and where the formula
    was read.
    """
    report_progress, rows, true = progress or silent, [], 0
    for done, paper in enumerate(PAPERS):
        report_progress(done, len(PAPERS), f"papers, now {paper.PAPER}")
        statements = paper.statements()
        rows += [_row(paper.PAPER, statement) for statement in statements]
        true += sum(statement.holds for statement in statements)
    return Table.of_rows(
        "The field in a few lines each",
        rows,
        (f"{true} of {len(rows)} statements hold as computed",),
    )


def _row(paper: str, statement: Statement) -> dict[str, object]:
    return {
        "paper": paper,
        "statement": statement.text,
        "computed": statement.computed,
        "± s.e.": statement.error or None,
        "": statement.relation,
        "published": statement.published,
        "difference": statement.computed - statement.published,
        "source": statement.source,
    }
