"""Embeddings: only the touched rows move."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.ops.builders import costed, counts, op, tensor
from tests.ops.oracle import Tally, added


def lookup(rows, width, table_rows, dtype="fp16", **attrs):
    return op(
        "embedding",
        {"rows": rows, "width": width, "table_rows": table_rows},
        inputs=(tensor(table_rows, width, dtype=dtype), tensor(rows, dtype="int64")),
        outputs=(tensor(rows, width, dtype=dtype),),
        **attrs,
    )


def test_one_row_of_gpt2s_table():
    found = costed(lookup(1, 768, 50_257))
    index = 8  # bytes of the index itself, read as well
    assert found.read_bytes == 1_536 + index  # not the table's 77 MB
    assert found.write_bytes == 1_536
    assert found.work == {}


def test_no_more_rows_than_the_table_has():
    # Two token types, looked up by 512 tokens
    found = costed(lookup(512, 768, 2))
    assert found.read_bytes == 2 * 1_536 + 512 * 8
    assert found.write_bytes == 512 * 1_536


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_bags_add_their_rows(bags, size, width, weighted):
    sums, means = Tally(), Tally()
    for tally in (sums, means):
        for _ in range(bags):
            rows = [tally.numbers(width) for _ in range(size)]
            if weighted:
                rows = [[x * 0.5 for x in row] for row in rows]
            columns = [added(column) for column in zip(*rows, strict=True)]
            if tally is means:
                [x / float(size) for x in columns]
    sizes = {"rows": bags * size, "width": width, "table_rows": 100, "bags": bags}
    for mode, tally in (("bag_sum", sums), ("bag_mean", means)):
        view = op("embedding", sizes, mode=mode, weighted=weighted)
        assert counts(view) == (0, tally.vector, 0)


def test_bags_are_counted_from_the_output():
    table, index = tensor(100, 4), tensor(12, dtype="int64")
    view = op(
        "embedding",
        {"rows": 12, "width": 4, "table_rows": 100},
        inputs=(table, index),
        outputs=(tensor(3, 4),),
        mode="bag_sum",
    )
    assert counts(view) == (0, (12 - 3) * 4, 0)


def test_bags_are_added_in_the_format_of_the_table():
    table, weights = tensor(100, 4, dtype="fp16"), tensor(12)  # weights of the rows, in fp32
    sizes = {"rows": 12, "width": 4, "bags": 3}
    view = op("embedding", sizes, inputs=(table, weights), mode="bag_sum")
    assert costed(view).work == {("vector", "fp16"): 36}


def test_dense_gradient_is_as_large_as_the_table():
    view = op(
        "embedding_backward",
        {"rows": 10, "width": 768},
        inputs=(tensor(10, 768), tensor(10, dtype="int64")),
        outputs=(tensor(50_257, 768),),
    )
    found = costed(view)
    assert counts(view) == (0, 7_680, 0)
    assert found.read_bytes == 10 * 768 * 4 + 80
    assert found.write_bytes == 50_257 * 768 * 4
