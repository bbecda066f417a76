"""Schedules for networks on streams of images and tables: ``forgetless bench deep``, with its options.

    python benchmarks/deep.py [STREAMS] [--data FOLDER] [--out FOLDER] [--minutes M] [--toy]

In full it is made for a large GPU; see docs/deep.md for what came out.
"""

import sys

from forgetless.cli.app import main

if __name__ == "__main__":
    sys.exit(main(["bench", "deep", *sys.argv[1:]]))
