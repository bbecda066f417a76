"""Learners of any memory on real streams: ``python -m streams``."""

import json
import math
from pathlib import Path

import click
from forgetless.cli.shared import print_lines


@click.command()
@click.argument("names", metavar="STREAMS", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default="results-streams", show_default=True)
@click.option("--only", multiple=True, help="Part of the names of methods; may be given several times.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Orders of streams without time.")
@click.option(
    "--units", type=click.FloatRange(0.0), default=0.0, help="Columns times 10^−U to 10^U, as from raw tables."
)
@click.option("--minutes", type=click.FloatRange(0.0, min_open=True), default=math.inf, help="Stop after so long.")
@click.option("--figures", is_flag=True, help="Draw error against memory into --out.")
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON on standard output.")
def main(
    names: tuple[str, ...],
    out: Path,
    only: tuple[str, ...],
    seeds: int,
    units: float,
    minutes: float,
    figures: bool,
    as_json: bool,
) -> None:
    """Learners of any memory on real STREAMS [default: all whose data are installed], every one tuned alike.

    One file per stream is written to --out; the same command goes on where it was stopped.
    """
    from streams import report, suite

    records = suite.bench(
        names, out, only=only, seeds=seeds, units=units, minutes=minutes, tell=lambda text: print_lines(text, err=True)
    )
    if figures:
        for file in report.figures(records, out):
            print_lines(str(file), err=True)
    if as_json:
        click.echo(json.dumps(records, ensure_ascii=False))
        return
    for record in records:
        found = report.table(record)
        click.echo(f"{found.title}\n{found.text()}\n")
    if len(records) > 1:
        found = report.overview(records)
        click.echo("\n".join([found.title, found.text(), *found.facts]))


if __name__ == "__main__":
    main()
