"""Tables for tests: the libraries that make them, and a stream of sales."""

import importlib.util

import numpy as np
import pandas as pd
import pyarrow as pa

LIBRARIES = {"dict": lambda table: table, "pandas": pd.DataFrame, "pyarrow": pa.table}
if importlib.util.find_spec("polars"):  # installed for development, not with the oldest versions
    import polars

    LIBRARIES["polars"] = polars.DataFrame


def sales(months, seed=0, n=40):
    """Return rows of some months: shops, prices with gaps, days, and sales that they explain."""
    rng = np.random.default_rng(seed)
    parts = []
    for month in months:
        shop = rng.choice(["Ulm", "Bonn", "Köln"], n)
        price = 1000 * rng.random(n)
        y = 0.01 * price + 3.0 * (shop == "Ulm") + 20 + 0.5 * rng.standard_normal(n)
        price = np.where(rng.random(n) < 0.05, np.nan, price)
        date = [f"2023-{month:02d}-{day:02d}" for day in rng.integers(1, 29, n)]
        parts.append(pd.DataFrame({"month": month, "shop": shop, "price": price, "date": date, "sales": y}))
    return pd.concat(parts, ignore_index=True)
