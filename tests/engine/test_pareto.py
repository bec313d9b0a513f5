"""Fronts against the definition, whole and gathered from parts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gambrel.engine.pareto import Objective, front
from gambrel.engine.tables import Words, joined, take

VALUES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 1)), min_size=1, max_size=60
)
GOALS = (Objective(column="a"), Objective(column="b", largest=True))


def table_of(rows):
    a, b, group = (np.array(column) for column in zip(*rows, strict=True))
    floats = np.where(a == 6, np.nan, a)
    index = np.arange(len(rows))
    return {"a": floats, "b": b, "group": Words(group.astype(np.int32), ("x", "y")), "i": index}


def by_definition(rows, apart):
    kept = []
    for i, (a, b, g) in enumerate(rows):
        others = [
            (x, y) for x, y, h in rows if x != 6 and (not apart or h == g) and (x, y) != (a, b)
        ]
        if a != 6 and not any(x <= a and y >= b for x, y in others):
            kept.append(i)
    return kept


@given(VALUES, st.booleans())
def test_a_front_is_what_nothing_dominates(rows, apart):
    found = front(table_of(rows), GOALS, "group" if apart else "")
    assert found["i"].tolist() == by_definition(rows, apart)


@given(VALUES, st.integers(1, 20))
def test_the_front_of_fronts_is_the_front(rows, size):
    table = table_of(rows)
    parts = [take(table, slice(i, i + size)) for i in range(0, len(rows), size)]
    gathered = front(joined([front(part, GOALS) for part in parts]), GOALS)
    assert gathered["i"].tolist() == front(table, GOALS)["i"].tolist()


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_fronts_of_several_objectives_are_what_nothing_dominates(objectives, seed):
    random = np.random.default_rng(seed)
    costs = random.integers(0, 6, (int(random.integers(1, 80)), objectives)).astype(float)
    names = [f"c{i}" for i in range(objectives)]
    table = {name: costs[:, i] for i, name in enumerate(names)}
    found = front(table | {"i": np.arange(len(costs))}, [Objective(column=n) for n in names])
    wanted = [
        i for i, row in enumerate(costs) if not ((costs <= row).all(1) & (costs < row).any(1)).any()
    ]
    assert found["i"].tolist() == wanted


def test_what_does_not_fit_is_on_no_front():
    table = {
        "time": np.array([1.0, 2.0, 3.0]),
        "fits": np.array([0, -1, 1], np.int8),  # no, unknown, yes
    }
    found = front(table, [Objective(column="time")])
    assert found["time"].tolist() == [2.0]
    assert front(table | {"fits": np.ones(3, np.int8)}, [Objective(column="time")])[
        "time"
    ].tolist() == [1.0]
