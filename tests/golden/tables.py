"""Golden numbers of tables: the features of an encoder, and what a model learns from them."""

import numpy as np

import forgetless as fl

ENCODERS = {
    "default": {"min_count": 1},
    "zero": {"min_count": 1, "impute": "zero"},
    "rare": {"min_count": 3},
    "hashed": {"min_count": 1, "max_categories": 2, "n_buckets": 4},
    "dropped": {"min_count": 1, "drop": ["town"], "categorical": ["rooms"]},
    "text": {"min_count": 1, "text": ["note"], "text_features": 16},
}

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
    """Yield all of them."""
    for name, options in ENCODERS.items():
        encoder = fl.tables.TableEncoder(**options)
        for t, (table, _) in enumerate(tables()):
            encoder.partial_fit(table)
            yield f"tables/encoder/{name}/{t}", dense(encoder.transform(table))
        yield f"tables/encoder/{name}/first", dense(encoder.transform(next(tables())[0]))
    for name, model in (("default", fl.StreamingRidge()), ("alpha", fl.ContinualRidge(alpha=0.5))):
        encoder = fl.tables.TableEncoder(min_count=1, drop=["note"])
        pipeline = fl.tables.make_pipeline(encoder, model)
        for table, y in tables():
            pipeline.partial_fit(table, y)
        yield f"tables/model/{name}", pipeline.predict(table)
        yield f"tables/model/{name}/coef", model.coef_


def dense(features):
    """Return features as an array; with texts they are sparse."""
    return features.toarray() if hasattr(features, "toarray") else features
