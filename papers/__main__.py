"""Print every statement with its number, or draw the figure: see ``papers``."""

import sys

from forgetless._table import Noted, Table
from papers import PAPERS, figure
from papers.statement import Statement


def text_of(paper: str, statements: list[Statement]) -> str:
    """Return the statements of a paper as a table below its name."""
    columns = {
        "statement": [each.text for each in statements],
        "computed": [Noted(each.computed, _error(each)) for each in statements],
        "": [each.relation for each in statements],
        "stated": [each.published for each in statements],
        "difference": [each.computed - each.published for each in statements],
        "source": [each.source for each in statements],
    }
    table = Table(paper, columns, number=".6g", formats={"difference": ".1e"})
    return f"{paper}\n{table.text()}\n"


def _error(statement: Statement) -> str:
    return f" ± {statement.error:.1g}" if statement.error else ""


def main(arguments: list[str]) -> int:
    """Print the statements, or write the figure to a path; return 1 if a statement is false."""
    if arguments:
        figure.save(arguments[0])
        return 0
    everything = []
    for paper in PAPERS:
        statements = paper.statements()
        print(text_of(paper.PAPER, statements), flush=True)
        everything += statements
    true = sum(each.holds for each in everything)
    print(f"{true} of {len(everything)} statements hold as computed")
    return int(true < len(everything))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
