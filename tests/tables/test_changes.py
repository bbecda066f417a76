"""What a table has that the rows before have not, and the tasks that raise an alarm."""

import numpy as np
import pandas as pd
import pytest

from forgetless.tables import TableModel

DAYS = pd.date_range("2024-01-01", periods=100).astype(str)


def table(seed, n=100):
    rng = np.random.default_rng(seed)
    town = np.where(np.arange(n) % 2, "Ulm", "Bonn")
    return pd.DataFrame({"price": 50 + 10 * rng.standard_normal(n), "town": town, "day": DAYS[:n]})


def target(X):
    return X["price"] / 10 + 3 * (X["town"] == "Ulm") + 0.1 * np.random.default_rng(len(X)).standard_normal(len(X))


@pytest.fixture(scope="module")
def model():
    learned = TableModel(drop=["note"])
    for month in range(7):
        learned.partial_fit(X := table(month), target(X), month)
    return learned


CHANGES = {  # what is done to the table, what is said, and whether it is severe
    "nothing": (lambda X: X, "", False),
    "a column that is dropped": (lambda X: X.assign(note=range(100)), "", False),
    "a column without values": (lambda X: X.assign(more=None), "", False),
    "another unit": (lambda X: X.assign(price=100 * X.price), "; unit × 100 (percent, cents)", True),
    "a larger unit": (lambda X: X.assign(price=X.price / 1.609), "; unit ÷ 1.609 (miles)", False),
    "pounds": (lambda X: X.assign(price=X.price * 2.2046), "; unit × 2.2046 (pounds)", True),
    "other means": (lambda X: X.assign(price=X.price + 20), "mean 7", False),
    "far means": (lambda X: X.assign(price=X.price + 4500), "mean 4550, was 49.54 ± 9.6", True),
    "wider values": (lambda X: X.assign(price=50 + 3 * (X.price - 50)), "mean 5", False),
    "very wide values": (lambda X: X.assign(price=50 + 9 * (X.price - 50)), "mean 5", True),
    "some gaps": (lambda X: X.assign(town=X.town.where(X.index >= 20)), "20% missing, was 0%", False),
    "many gaps": (lambda X: X.assign(town=X.town.where(X.index >= 40)), "40% missing, was 0%", True),
    "few gaps": (lambda X: X.assign(town=X.town.where(X.index >= 9)), "", False),
    "text": (lambda X: X.assign(price=["see", *X.price[1:]]), "1 cells are no numbers, such as 'see'", False),
    "few labels": (lambda X: X.assign(town=X.town.where(X.index >= 4, "Rom")), "", False),
    "some labels": (lambda X: X.assign(town=X.town.where(X.index >= 9, "Rom")), "in 9% of the rows: 'Rom'", False),
    "many labels": (
        lambda X: X.assign(town=[f"town {i % 5}" if i < 40 else "Ulm" for i in range(100)]),
        "labels never seen in 40% of the rows: 'town 0', 'town 1', 'town 2' and 2 more",
        True,
    ),
    "a column less": (lambda X: X.drop(columns="town"), "is not in this table: taken for missing", True),
    "a column more": (lambda X: X.assign(more=1.0), "is new", False),
    "earlier dates": (
        lambda X: X.assign(day=pd.date_range("2021-05-01", periods=100).astype(str)),
        "begins on 2021-05-01, dates so far are 2024-01-01 to 2024-04-09",
        False,
    ),
    "far dates": (lambda X: X.assign(day="2025-04-12"), "begins on 2025-04-12", True),
    "later dates": (lambda X: X.assign(day="2025-04-09"), "", False),
    "rows that come twice": (lambda X: X.iloc[np.arange(100) // 2], "50% of the rows come twice in this task", False),
    "few rows": (lambda X: X.iloc[:7].assign(price=4500.0), "", False),
}


@pytest.mark.parametrize("case", CHANGES)
def test_changes_are_said_of_the_column_that_changed(model, case):
    change, said, severe = CHANGES[case]
    X = change(table(9))
    found = model.changes(X, np.zeros(len(X)))
    assert len(found) == bool(said), found
    for each in found:
        assert said in each.text
        assert ("unit" in each.text) == ("unit" in said)
        assert each.severe == severe


def test_severe_changes_come_first(model):
    found = model.changes(table(9).assign(more=1.0).drop(columns="town"))
    assert [(each.column, each.severe) for each in found] == [("town", True), ("more", False)]


def with_errors(noises, **options):
    model = TableModel(**options)
    for task, noise in enumerate(noises):
        X = table(task)
        model.partial_fit(X, target(X) + noise * np.random.default_rng(99).standard_normal(100), task)
    return model.alarms()


@pytest.mark.parametrize("before", [2, 8])
@pytest.mark.parametrize("objective", ["next", "all"])
def test_a_task_with_far_larger_errors_raises_an_alarm(before, objective):
    (alarm,) = with_errors([0.3] * (1 + before) + [3.0], objective=objective)
    assert alarm.task == str(1 + before)
    assert "times the usual one" in alarm.text
    assert ("--objective next" in alarm.remedy) == (objective == "all")


@pytest.mark.parametrize(
    "noises", [[0.3] * 9, [0.3, 3.0, 3.0], [0.3, 0.3, 3.0], [0.3, 0.3, 0.3, 0.36], [0.3] * 8 + [0.4]]
)
def test_other_errors_raise_none(noises):
    assert with_errors(noises) == []


def test_one_wrong_target_is_an_alarm_that_says_so():
    """Its error is as large as the standard error, so that no number of these shows it."""
    model = TableModel()
    for task in range(5):
        X = table(task)
        y = target(X) + 0.3 * np.random.default_rng(task).standard_normal(len(X))
        y[0] += 1e9 * (task == 4)
        model.partial_fit(X, y, task)
    (alarm,) = model.alarms()
    assert (alarm.task, "nearly all of it of a few rows" in alarm.text) == ("4", True)
    assert "Look for targets that are wrong" in alarm.remedy


@pytest.mark.parametrize(
    ("change", "text", "remedy"),
    [
        (lambda X: {"price": X.price * 100, "town": "Rom"}, "never seen in 100% of the rows: 'Rom'", "Convert"),
        (lambda X: {"town": "Rom"}, "town labels never seen in 100% of the rows: 'Rom'", "Correct labels"),
        (lambda X: {"price": X.price - 300}, "price mean -2", "Check where the column comes from"),
        (lambda X: {"price": np.nan}, "price 100% missing, was 0%", "Find out why"),
    ],
)
def test_a_severe_change_is_an_alarm_with_its_remedy(change, text, remedy):
    model = TableModel()
    for task in range(3):
        X = table(task)
        model.partial_fit(X.assign(**change(X)) if task == 2 else X, target(X), task)
    (alarm,) = model.alarms()
    assert alarm.task == "2"
    assert text in alarm.text
    assert alarm.remedy.startswith(remedy)
    assert alarm.sentence() == f"2: {alarm.text}. {alarm.remedy}"
