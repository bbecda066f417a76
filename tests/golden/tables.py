"""Golden numbers of tables: the features of an encoder, and what a model learns from them."""

import numpy as np

import forgetless as fl

ENCODERS = {"default": {}, "hashed": {"max_categories": 2}, "dropped": {"drop": ["town"], "categorical": ["rooms"]}}

TOWNS = ("Ulm", "Bonn", "Köln", "Trier", "Jena")
WORDS = ("old", "new", "large", "small", "dark")


def tables(n_tasks=3, n_rows=12):
    """Yield tables with numbers, booleans, categories, dates, words and missing values."""
    rng = np.random.default_rng(4)
    for t in range(n_tasks):
        size = rng.normal(80.0, 20.0, n_rows).round(1).tolist()
        rooms = rng.integers(1, 5, n_rows).tolist()
        days = rng.integers(0, 900, n_rows).tolist()
        notes = [" ".join(rng.choice(WORDS, 2)) for _ in range(n_rows)]
        # New towns, missing numbers and missing dates come with later tasks.
        size[t] = None if t else size[t]
        dates = [str(np.datetime64("2022-01-01") + day) for day in days]
        dates[-1] = None if t == 2 else dates[-1]
        table = {
            "size": size,
            "rooms": rooms,
            "town": [TOWNS[i] for i in rng.integers(0, t + 3, n_rows)],
            "sold": dates,
            "garden": (rng.random(n_rows) < 0.5).tolist(),
            "note": notes,
        }
        yield table, np.array(rooms) * 2.0 + rng.standard_normal(n_rows)


def numbers():
    """Yield all of them; labels beyond the most are summed, since their hashes have a random key."""
    for name, options in ENCODERS.items():
        encoder = fl.tables.TableEncoder(**options)
        for t, (table, _) in enumerate(tables()):
            encoder.partial_fit(table)
            yield f"tables/encoder/{name}/{t}", features(encoder, table)
        yield f"tables/encoder/{name}/first", features(encoder, next(tables())[0])
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
