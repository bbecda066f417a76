"""Golden numbers of tables: the features of an encoder, and what a model learns from them."""

import numpy as np

import forgetless as fl
from support.tables import sales

WORDS = ("old", "new", "large", "small", "dark")
ENCODERS = {"default": {}, "hashed": {"max_categories": 2}, "dropped": {"drop": ["shop"], "categorical": ["rooms"]}}


def tables():
    """Yield tables with numbers, integers, booleans, categories, dates, words and missing values."""
    rng = np.random.default_rng(4)
    for month, table in sales(range(1, 4), n=12).groupby("month"):
        words = [" ".join(rng.choice(WORDS, month)) for _ in range(12)]
        more = {"rooms": rng.integers(1, 5, 12), "garden": rng.random(12) < 0.5, "note": words}
        yield table.drop(columns=["month", "sales"]).assign(**more), table["sales"].to_numpy()


def numbers():
    """Yield all of them; labels beyond the most are summed, since their hashes have a random key."""
    for name, options in ENCODERS.items():
        encoder = fl.tables.TableEncoder(**options)
        for t, (table, _) in enumerate(tables()):
            encoder.partial_fit(table)
            yield f"tables/encoder/{name}/{t}", features(encoder, table)
    for objective in ("next", "all"):
        model = fl.tables.TableModel(objective, drop=["note"])
        for table, y in tables():
            model.partial_fit(table, y)
        yield f"tables/model/{objective}", model.predict(table)
        yield f"tables/model/{objective}/coef", model.to_sklearn().coef_
        yield f"tables/model/{objective}/errors", np.array([each["error"] for each in model.history_[1:]])


def features(encoder, table):
    """Return the features of an encoder, with those of hashes as one."""
    Z = encoder.transform(table)
    is_hash = np.array(["#" in name for name in encoder.get_feature_names_out()])
    return np.column_stack([Z[:, ~is_hash], Z[:, is_hash].sum(axis=1)])
