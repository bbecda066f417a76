"""Commands as a user runs them, within this process."""

from forgetless import cli


def run(capsys, *words):
    """Run a command; return its exit code, what it printed and what it said on standard error."""
    code = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err
