"""What a table has that the rows before have not, and the tasks that raise an alarm."""

import numpy as np
import pandas as pd
import pytest

from forgetless.tables import TableModel
from forgetless.tables.scores import alarms, level_note

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
    "other means": (lambda X: X.assign(price=X.price + 15), "mean 6", False),
    "far means": (lambda X: X.assign(price=X.price + 42), ", was 49.54 ± 9.6", True),
    "wider values": (lambda X: X.assign(price=50 + 2.7 * (X.price - 50)), "mean 5", False),
    "very wide values": (lambda X: X.assign(price=50 + 5.4 * (X.price - 50)), "mean 5", True),
    "some gaps": (lambda X: X.assign(town=X.town.where(X.index >= 30)), "30% missing, was 0%", False),
    "many gaps": (lambda X: X.assign(town=X.town.where(X.index >= 40)), "40% missing, was 0%", True),
    "few gaps": (lambda X: X.assign(town=X.town.where(X.index >= 10)), "", False),
    "text": (lambda X: X.assign(price=["see", *X.price[1:]]), "1 cells are no numbers, such as 'see'", False),
    "few labels": (lambda X: X.assign(town=X.town.where(X.index >= 5, "Rom")), "", False),
    "some labels": (lambda X: X.assign(town=X.town.where(X.index >= 20, "Rom")), "in 20% of the rows: 'Rom'", False),
    "many labels": (
        lambda X: X.assign(town=[f"town {i % 5}" if i < 40 else "Ulm" for i in range(100)]),
        "labels never seen in 40% of the rows: 'town 0', 'town 1', 'town 2' and 2 more",
        True,
    ),
    "three labels": (lambda X: X.assign(town=[f"a{i % 3}" if i < 40 else "Ulm" for i in range(100)]), ", 'a2'", True),
    "a column less": (lambda X: X.drop(columns="town"), "is not in this table: taken for missing", True),
    "a column more": (lambda X: X.assign(more=1.0), "is new", False),
    "earlier dates": (
        lambda X: X.assign(day=pd.date_range("2021-05-01", periods=100).astype(str)),
        "begins on 2021-05-01, dates so far are 2024-01-01 to 2024-04-09",
        False,
    ),
    "far dates": (lambda X: X.assign(day="2025-04-11"), "begins on 2025-04-11", True),
    "later dates": (lambda X: X.assign(day="2025-04-10"), "", False),
    "the first day": (lambda X: X.assign(day="2024-01-01"), "", False),
    "rows that come twice": (lambda X: X.iloc[np.arange(100) // 2], "50% of the rows come twice in this task", False),
    "few rows": (lambda X: X.iloc[:7].assign(price=4500.0), "", False),
    "eight rows": (lambda X: X.iloc[:8].assign(price=4500.0), "mean 4500", True),
    "a unit and a half": (lambda X: X.assign(price=15 * X.price), "mean 7", True),
}


@pytest.mark.parametrize("case", CHANGES)
def test_changes_are_said_of_the_column_that_changed(model, case):
    change, said, severe = CHANGES[case]
    X = change(table(9))
    found = model.changes(X, np.zeros(len(X)))
    assert len(found) == bool(said), found
    for each in found:
        assert said in each.text
        assert ("unit" in each.text, "more" in each.text, each.severe) == ("unit" in said, "more" in said, severe)


def test_severe_changes_come_first_and_units_are_named(model):
    found = model.changes(table(9).assign(more=1.0).drop(columns="town"))
    assert [(each.column, each.severe) for each in found] == [("town", True), ("more", False)]
    named = ("1000 (thousands, grams)", "1e+06 (millions)", "60 (minutes)", "3600 (seconds)", "2.54 (inches)")
    for unit in ("10", *named):
        for sign, power in (("×", 1), ("÷", -1)):
            (found,) = model.changes(table(9).assign(price=table(9).price * float(unit.split()[0]) ** power))
            assert found.text.endswith(f"; unit {sign} {unit}")


def test_a_constant_says_nothing_of_other_values_and_gaps_are_compared_with_gaps():
    assert not TableModel().partial_fit({"x": [0.0] * 8}, range(8)).changes({"x": [1.0] * 8})
    model = TableModel().partial_fit({"x": [None] * 4 + [1.0] * 16}, range(20))
    assert model.changes({"x": [None] * 7 + [1.0] * 13}) == [("x", "35% missing, was 20%", False)]


def records(errors, **last):
    """Records of a first task, of tasks with these errors, and of what the last one has besides."""
    plain = {"spread": 0.0, "bias": 0.0, "changes": []}
    found = [{"task": str(t), "rows": 100, "error": e, **plain} for t, e in enumerate([None, *errors])]
    return [*found[:-1], found[-1] | last]


SPREAD = np.exp([-0.4, -0.2, 0.0, 0.2, 0.4])  # the median deviation of its logarithms is 0.2
ALARMS = [  # errors before, the largest that raises no alarm, one that does, and what the record has besides
    ([1.0], 1e9, None, {}),
    ([1.0, 2.0], 3.0, 3.01, {}),
    ([2.0, 1.0], 5.0, 5.01, {"spread": 1.0}),  # three standard errors above the largest
    ([1.0] * 4, 1.5, 1.51, {"rows": 50}),
    ([1.0] * 5, 2.22, 2.23, {"rows": 50}),  # exp(4 √(2/50))
    (10 * SPREAD, 32.7, 32.8, {"rows": 10**9}),  # exp(4 · 1.4826 · 0.2)
    ([1.0] * 5, 4.0, 4.1, {"spread": 1.0}),
    ([9.0] + [1.0, 2.0] * 10, 11.7, 11.8, {"rows": 10**9}),  # of the last twenty
    ([1.0, 1.0], 100.0, 100.1, {"spread": 1e3}),
    ([1e-9, 1e-9], 1.0, None, {"spread": 1.0, "loss": 0.1}),
]


@pytest.mark.parametrize(("before", "largest", "above", "besides"), ALARMS)
def test_errors_above_a_limit_raise_an_alarm(before, largest, above, besides):
    assert not alarms(records([*before, largest], **besides))
    assert above is None or len(alarms(records([*before, above], **besides))) == 1


def test_an_alarm_says_how_large_the_error_is_and_at_most_three_changes():
    for besides, said in (({}, "3 times"), ({"loss": 1.0}, "9 times")):
        (alarm,) = alarms(records([1.0, 1.0, 9.0], **besides))
        assert alarm.text == f"the error is {said} the usual one"
    for spread, is_few in ((200.0, False), (200.1, True)):
        assert ("of a few rows" in alarms(records([1.0, 1.0, 400.0], spread=spread))[0].text) == is_few
    changes = [(column, "is not in this table", True) for column in "abcd"]
    (alarm,) = alarms(records([1.0], changes=[*changes, ("e", "is new", False)]))
    assert alarm.text == "a is not in this table; b is not in this table; c is not in this table"


@pytest.mark.parametrize(
    ("bias", "rows", "said"),
    [(0.6, 10**6, ""), (-0.61, 10**6, "high by 0.61"), (1.5, 100, ""), (1.52, 100, "low by 1.52")],
)
def test_a_level_is_noted_from_a_size_on(bias, rows, said):
    """0.3 of the RMSE so far, which is 2, and 5 standard errors of the mean residual."""
    note = level_note(records([4.0, 4.0, 9.0], bias=bias, rows=rows))
    assert note == (f"3 was predicted too {said} on average" if said else "")


@pytest.mark.parametrize("objective", ["next", "all"])
def test_a_task_with_far_larger_errors_raises_an_alarm(objective):
    model = TableModel(objective)
    for task, noise in enumerate([0.3, 0.3, 0.3, 0.36, 0.3, 3.0]):
        X = table(task)
        model.partial_fit(X, target(X) + noise * np.random.default_rng(99).standard_normal(100), task)
    (alarm,) = model.alarms()
    assert (alarm.task, "times the usual one" in alarm.text) == ("5", True)
    assert ("--objective next" in alarm.remedy) == (objective == "all")


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
    ("text", "remedy"),
    [
        ("mean 5000, was 50 ± 9; unit × 100", "Convert the column"),
        ("labels never seen in 100% of the rows: 'Rom'", "Correct labels"),
        ("is not in this table: taken for missing", "Add the column"),
        ("100% missing, was 0%", "Find out why"),
        ("begins on 2025-04-11", "Check the dates"),
        ("mean -250, was 50 ± 9", "Check where the column comes from"),
    ],
)
def test_a_severe_change_is_an_alarm_with_its_remedy(text, remedy):
    (alarm,) = alarms(records([1.0], changes=[("x", text, True)]))
    assert alarm.remedy.startswith(remedy)
    assert alarm.sentence() == f"1: x {text}. {alarm.remedy}"
