"""Schedules for networks on streams of images and tables: ``python -m deep``."""

import json
import math
from pathlib import Path

import click

from forgetless.cli import print_lines


@click.command()
@click.argument("streams", nargs=-1)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default="results-deep", show_default=True)
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder with idx files.")
@click.option("--method", "methods", multiple=True, help="Only these; may be repeated.")
@click.option("--tuning-seeds", type=click.IntRange(1), default=4, show_default=True)
@click.option("--report-seeds", type=click.IntRange(2), default=20, show_default=True)
@click.option("--minutes", type=click.FloatRange(0.0, min_open=True), default=math.inf, help="Stop after so long.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda or auto.")
@click.option("--at-once", type=click.IntRange(1), default=1000, show_default=True, help="Runs trained together.")
@click.option("--toy", is_flag=True, help="Tiny tasks, to see that all works.")
@click.option("--small", is_flag=True, help="A smaller language model and fewer values of parameters, for a CPU.")
@click.option("--pack", type=click.Path(path_type=Path), help="Only write the data, for --data elsewhere.")
@click.option("--figures", is_flag=True, help="Draw what is finished in --out; needs matplotlib.")
@click.option("--json", "as_json", is_flag=True, help="Print the gains as JSON on standard output.")
def main(  # noqa: PLR0913
    streams: tuple[str, ...],
    out: Path,
    data: Path | None,
    methods: tuple[str, ...],
    tuning_seeds: int,
    report_seeds: int,
    minutes: float,
    device: str,
    at_once: int,
    toy: bool,
    small: bool,
    pack: Path | None,
    figures: bool,
    as_json: bool,
) -> None:
    """Schedules for networks, tuned alike and compared in pairs, on STREAMS [default: all]; needs torch.

    One file per stream is written to --out, and table.txt; the same command goes on where it was stopped.
    """
    from deep import report, suite

    if pack is not None:
        for file in suite.packed(streams, data, pack):
            print_lines(f"{file}: {file.stat().st_size / 1e6:.1f} MB", err=True)
        return
    records = suite.bench(
        streams,
        out,
        data=data,
        methods=methods,
        tuning_seeds=tuning_seeds,
        report_seeds=report_seeds,
        minutes=minutes,
        device=device,
        at_once=at_once,
        toy=toy,
        small=small,
        tell=lambda text: print_lines(text, err=True),
    )
    written = report.write(out)
    if figures and written:
        from deep.figures import draw

        written += draw(report.read(out), out)
    for file in written:
        print_lines(str(file), err=True)
    if as_json:
        click.echo(json.dumps([row for record in records for row in report.gains(record)], ensure_ascii=False))
        return
    for record in records:
        table = report.table(record)
        click.echo("\n".join([table.title, table.text(), *table.facts, ""]))


if __name__ == "__main__":
    main()
