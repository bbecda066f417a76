"""Run all proofs: ``python -m research.proofs``."""

import sys

from research.proofs import constants, unregularized


def main() -> int:
    """Run the proofs of the constants that hold for every k; return 1 if an inequality fails.

    Needs python-flint and numba. The proofs for increasing schedules are in docs/proofs.md,
    those for no regularization, in rational numbers, in docs/unregularized.md.
    """
    free = [unregularized.prove(c, start) for c, start in unregularized.CLAIMS]
    print(unregularized.table(free).text(), end="\n\n")
    rising = constants.prove_all()
    print(constants.table(rising).text())
    return int(not all(proof.holds for proof in [*free, *rising]))


if __name__ == "__main__":
    sys.exit(main())
