"""Run all proofs: ``python -m research.proofs``."""

import sys

from research.proofs.constants import prove_all, table


def main() -> int:
    """Run the proofs of the constants that hold for every k; return 1 if an inequality fails.

    Needs python-flint and numba. The proof is in docs/upper-bounds.md, its parts in
    research/research/proofs/constants.py.
    """
    results = prove_all()
    print(table(results).text())
    return int(not all(proof.holds for proof in results))


if __name__ == "__main__":
    sys.exit(main())
