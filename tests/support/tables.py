"""The libraries of tables that are tested, by what makes a table of columns."""

import importlib.util

import pandas as pd
import pyarrow as pa

LIBRARIES = {"dict": lambda table: table, "pandas": pd.DataFrame, "pyarrow": pa.table}
if importlib.util.find_spec("polars"):  # installed for development, not with the oldest versions
    import polars

    LIBRARIES["polars"] = polars.DataFrame
