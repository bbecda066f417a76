"""Run all proofs: ``python -m proofs``."""

import json

import click

from forgetless.reporting.progress import terminal_progress


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
def main(as_json: bool) -> None:
    """Run the proofs of the constants that hold for every k; exit with 1 if an inequality fails.

    Needs python-flint and numba. The proof is in docs/upper-bounds.md, its parts in
    proofs/constants.py.
    """
    from proofs.constants import prove_all, table

    with terminal_progress() as report_progress:
        results = prove_all(progress=report_progress)
    if as_json:
        keys = ("first", "middle", "tail", "small", "worst", "seconds", "holds")
        rows = [
            {"name": proof.constant.name, "constant": float(proof.constant.value)}
            | {key: getattr(proof, key) for key in keys}
            for proof in results
        ]
        click.echo(json.dumps(rows, ensure_ascii=False))
    else:
        click.echo(table(results).text())
    if not all(proof.holds for proof in results):
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
