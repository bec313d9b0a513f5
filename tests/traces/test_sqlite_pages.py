"""Columns from the pages of a database: the same numbers as `sqlite3` hands out, or a refusal."""

from __future__ import annotations

import random
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gambrel.traces import nsys
from gambrel.traces.sqlite_pages import NULL, UnusualError, columns

#: The ends of each width that SQLite stores: 0 and 1 without a byte, 1, 2, 3, 4, 6, 8 bytes.
EDGES = [0, 1, -1, 2, 127, -128, 128, 2**15, -(2**15) - 1, 2**23, -(2**23), 2**31, 2**47 - 1]
EDGES += [-(2**47), 2**47, 2**63 - 1, -(2**63) + 1]
number = st.one_of(st.none(), st.sampled_from(EDGES), st.integers(-(2**63) + 1, 2**63 - 1))


def write(path, rows, page=4096, table="t"):
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.execute(f"PRAGMA page_size = {page}")
    base.execute(f"CREATE TABLE {table} (a INT, b INT, c INT, d INT)")
    base.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", rows)
    base.commit()
    base.close()
    return path


def fast(path, wanted):
    base = sqlite3.connect(path)
    try:
        blocks = [block.T.tolist() for block in columns(base, path, "t", wanted)]
    finally:
        base.close()
    return [tuple(None if x == NULL else x for x in row) for block in blocks for row in block]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(number, number, number, number), max_size=60),
    st.sampled_from([512, 1024, 4096, 65536]),
)
def test_any_numbers(tmp_path_factory, rows, page):
    path = write(tmp_path_factory.getbasetemp() / "any.sqlite", rows, page)
    assert fast(path, ["d", "b"]) == [(row[3], row[1]) for row in rows]


@pytest.mark.parametrize("page", [512, 4096])
def test_deep_trees(tmp_path, page):
    # 30,000 rows of about 20 bytes: three levels of pages of 512 bytes, two of 4096.
    rows = [(i, i * i, -i, i % 3) for i in range(30_000)]
    assert fast(write(tmp_path / "t.sqlite", rows, page), ["a", "b", "c", "d"]) == rows


@pytest.mark.parametrize("odd", ["text", 1.5, b"blob", "x" * 200, "x" * 5000])
def test_other_types_are_refused(tmp_path, odd):
    path = write(tmp_path / "t.sqlite", [(1, 2, 3, 4), (1, odd, 3, 4)])
    with pytest.raises(UnusualError):
        fast(path, ["b"])


def test_text_beside_the_wanted_columns(tmp_path):
    path = write(tmp_path / "t.sqlite", [(1, "short", 3, 4), (5, "longer text", 7, 8)])
    assert fast(path, ["a", "d"]) == [(1, 4), (5, 8)]


@pytest.mark.parametrize(
    "schema",
    ["(a INTEGER PRIMARY KEY, b INT)", "(a INT, b INT, PRIMARY KEY (a)) WITHOUT ROWID"],
)
def test_columns_that_are_not_stored(tmp_path, schema):
    base = sqlite3.connect(tmp_path / "t.sqlite")
    base.execute(f"CREATE TABLE t {schema}")
    base.execute("INSERT INTO t VALUES (1, 2)")
    base.commit()
    base.close()
    with pytest.raises(UnusualError):
        fast(tmp_path / "t.sqlite", ["a", "b"])


def test_columns_added_later(tmp_path):
    path = write(tmp_path / "t.sqlite", [(1, 2, 3, 4)])
    base = sqlite3.connect(path)
    base.execute("ALTER TABLE t ADD COLUMN e INT DEFAULT 9")
    base.commit()
    base.close()
    with pytest.raises(UnusualError):
        fast(path, ["e"])


def test_damage_is_refused_or_harmless(tmp_path):
    path = write(tmp_path / "t.sqlite", [(i, i * i, -i, i % 3) for i in range(3000)])
    whole, draw = path.read_bytes(), random.Random(1)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(draw.randrange(1, 20)):
            data[draw.randrange(4096, len(data))] = draw.randrange(256)
        path.write_bytes(data[: draw.choice([len(data), draw.randrange(5000, len(data))])])
        try:
            found = fast(path, ["a", "b", "c", "d"])
        except (UnusualError, sqlite3.DatabaseError):
            continue
        assert len(found) == 3000  # a value may be another one, no row is lost or invented


def run(path, seed, nvtx=True, odd=False):
    """A database of kernels of three streams that overlap, some of them without a usable time."""
    draw, base = random.Random(seed), sqlite3.connect(path)
    base.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, f"k{i}") for i in range(9)])
    base.execute(
        'CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, "end" INT, correlationId INT, '
        "deviceId INT, demangledName INT, gridX INT, gridY INT, gridZ INT)"
    )
    base.execute(
        'CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, "end" INT, correlationId INT, '
        "globalTid INT)"
    )
    for i in range(2000):
        at = 1000 * i + draw.randrange(3000)
        end = draw.choice([at + draw.randrange(5000)] * 50 + [None, at - 1])
        grid = draw.choice([1, 0, None, 2**40, 200])
        row = (at, end, i, draw.choice([0, 1]), draw.randrange(9), grid, 1, 1)
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?,?,?,?)", row)
        call = (at - 900, at - 800, i, draw.choice([7, 2**55 + 1]))
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?)", call)
    if odd:
        row = ("later", 5, 1, 0, "by name", 1, 1, 1)
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?,?,?,?)", row)
    if nvtx:
        base.execute('CREATE TABLE NVTX_EVENTS (start INT, "end" INT, text TEXT, globalTid INT)')
        for i in range(300):
            at = 7000 * i
            row = (at, at + draw.randrange(1, 30_000), f"range {i % 7}", draw.choice([7, 8]))
            base.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,?,?)", row)
    base.commit()
    base.close()
    return path


def listed(samples):
    return sorted(map(repr, samples.launches))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nvtx", [True, False])
def test_both_ways_agree(tmp_path, monkeypatch, seed, nvtx):
    path = run(tmp_path / "r.sqlite", seed, nvtx)

    def never(*_args):
        raise AssertionError("rows were read one by one")

    with monkeypatch.context() as patch:
        patch.setattr(nsys, "_by_rows", never)
        by_pages = nsys.read(path)
    with monkeypatch.context() as patch:
        patch.setattr("gambrel.traces.nsys_ranges._calls_by_pages", _refuse)
        patch.setattr(nsys, "_by_pages", _refuse)
        by_rows = nsys.read(path)
    assert listed(by_pages) == listed(by_rows)
    assert by_pages.spans == by_rows.spans
    assert by_pages.skipped == by_rows.skipped
    assert by_pages.skipped["kernels without a usable time"] > 0
    assert sum(s.count for s in by_pages.launches) + sum(by_pages.skipped.values()) == 2000
    assert {s.group for s in by_pages.launches} == (
        {"", *(f"range {i}" for i in range(7))} if nvtx else {""}
    )


def _refuse(*_args):
    raise UnusualError("on purpose")
    yield


def test_a_row_of_other_types_takes_the_long_way(tmp_path):
    whole = nsys.read(run(tmp_path / "a.sqlite", 1))
    odd = nsys.read(run(tmp_path / "b.sqlite", 1, odd=True))
    assert listed(whole) == listed(odd)
    assert sum(odd.skipped.values()) == sum(whole.skipped.values()) + 1
