"""Lifting captures to symbols, on a small matmul + attention-like model built by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gambrel.errors import WorkloadError
from gambrel.workload import Op, Role, Symbol, Tensor, Workload
from gambrel.workload.binding import bind
from gambrel.workload.lift import lift

BATCH = Symbol(name="batch", default=1)
SEQ = Symbol(name="seq", default=8)
GRID = [(b, s) for b in (1, 2) for s in (1, 3, 4)] + [(5, 7)]


def captured(batch: int, seq: int, kind: str = "matmul") -> Workload:
    """As if captured: x (B, S, 16) times a weight, then B·S² scores, then a slice."""
    return Workload(
        name="tiny",
        dtype="fp32",
        tensors=(
            Tensor(shape=(batch, seq, 16), dtype="fp32", storage=0, role=Role.INPUT),
            Tensor(shape=(16, 16), dtype="fp32", storage=1, role=Role.WEIGHT),
            Tensor(shape=(batch, seq, seq), dtype="fp32", storage=2),
            Tensor(shape=(seq,), dtype="fp32", storage=2, offset=(batch - 1) * seq * seq),
            Tensor(
                shape=(batch, seq),
                dtype="fp32",
                storage=3,
                elements=seq if batch > 1 else None,
            ),
        ),
        ops=(
            Op(kind=kind, inputs=(0, 1), outputs=(2,), sizes={"m": batch * seq, "n": 16}),
            Op(kind="pool", sizes={"pairs": seq * (seq + 1) // 2, "window": (3, seq)}),
        ),
    )


def captures(
    build: Callable[[int, int], Workload] = captured, grid: list[tuple[int, int]] = GRID
) -> list[tuple[dict[str, int], Workload]]:
    return [({"batch": b, "seq": s}, build(b, s)) for b, s in grid]


def test_every_number_becomes_its_polynomial() -> None:
    lifted = lift(captures(), (BATCH, SEQ), {"seq": 2})
    assert [t.shape for t in lifted.tensors] == [
        ("batch", "seq", 16),
        (16, 16),
        ("batch", "seq", "seq"),
        ("seq",),
        ("batch", "seq"),
    ]
    assert lifted.tensors[3].offset == "batch*seq^2 - 1*seq^2"
    assert lifted.tensors[4].elements == "seq"
    assert lifted.ops[0].sizes == {"m": "batch*seq", "n": 16}
    assert lifted.ops[1].sizes == {"pairs": "1/2*seq^2 + 1/2*seq", "window": (3, "seq")}
    assert lifted.symbols == (BATCH, SEQ)


@settings(deadline=None)
@given(st.integers(2, 10**6), st.integers(1, 10**6))
def test_binding_what_was_lifted_is_a_capture_there(batch: int, seq: int) -> None:
    lifted = lift(captures(), (BATCH, SEQ), {"seq": 2})
    assert bind(lifted, {"batch": batch, "seq": seq}) == captured(batch, seq)


def test_binding_fills_in_defaults() -> None:
    lifted = lift(captures(), (BATCH, SEQ), {"seq": 2})
    assert bind(lifted).tensors[0].shape == (1, 8, 16)


def test_a_structure_that_changes_is_said_with_the_op_and_the_points() -> None:
    def changing(batch: int, seq: int) -> Workload:
        return captured(batch, seq, kind="copy" if batch == 5 else "matmul")

    with pytest.raises(
        WorkloadError,
        match=r"tiny: its structure changes between batch=1, seq=1 and batch=5, seq=7: "
        r"op 0 \(matmul in the model\), kind: matmul becomes copy\.",
    ):
        lift(captures(changing), (BATCH, SEQ), {"seq": 2})


def test_an_op_more_is_said() -> None:
    def growing(batch: int, seq: int) -> Workload:
        w = captured(batch, seq)
        return replace(w, ops=(*w.ops, Op(kind="copy"))) if seq == 7 else w

    with pytest.raises(WorkloadError, match="2 ops become 3, first copy"):
        lift(captures(growing), (BATCH, SEQ), {"seq": 2})


def test_a_tensor_of_another_format_is_said() -> None:
    def changing(batch: int, seq: int) -> Workload:
        w = captured(batch, seq)
        head = replace(w.tensors[0], dtype="fp16") if batch == 2 else w.tensors[0]
        return replace(w, tensors=(head, *w.tensors[1:]))

    with pytest.raises(WorkloadError, match=r"tensor 0 \(input\), dtype: fp32 becomes fp16"):
        lift(captures(changing), (BATCH, SEQ), {"seq": 2})


def test_a_number_beyond_the_degree_is_refused_not_approximated() -> None:
    with pytest.raises(
        WorkloadError, match=r"tensor 3: no polynomial up to batch, seq gives 0 at batch=1, seq=1; "
    ):
        lift(captures(), (BATCH, SEQ), {"seq": 1})


def test_a_number_that_is_no_polynomial_is_refused() -> None:
    def padded(batch: int, seq: int) -> Workload:
        w = captured(batch, seq)
        return replace(w, ops=(Op(kind="pad", sizes={"n": max(seq, 4)}, module="neck"),))

    with pytest.raises(
        WorkloadError,
        match=r"op 0 \(pad\) in neck: no polynomial up to batch, seq\^2 gives 4 at batch=1",
    ):
        lift(captures(padded), (BATCH, SEQ), {"seq": 2})


def test_a_half_is_allowed_only_where_it_is_always_whole() -> None:
    def halved(batch: int, seq: int) -> Workload:
        op = Op(kind="pool", sizes={"n": seq // 2})
        return Workload(name="half", dtype="fp32", tensors=(), ops=(op,))

    even = [(1, 2), (2, 4), (1, 4), (2, 2), (3, 10)]
    found = lift(captures(halved, even), (BATCH, replace(SEQ, minimum=2, multiple_of=2)))
    assert found.ops[0].sizes == {"n": "1/2*seq"}
    with pytest.raises(WorkloadError, match="the captures cover multiples of 2 from 2"):
        lift(captures(halved, even), (BATCH, replace(SEQ, minimum=2)))


def test_a_range_below_the_captures_is_refused() -> None:
    grid = [(2, 1), (2, 2), (3, 1), (3, 2), (5, 3)]
    with pytest.raises(
        WorkloadError,
        match=r"batch claims multiples of 1 from 1; the captures cover multiples of 1 from 2\.",
    ):
        lift(captures(grid=grid), (BATCH, SEQ))


def test_a_capture_outside_the_claimed_range_is_refused() -> None:
    with pytest.raises(WorkloadError, match="seq=7: this model takes at least 1 and at most 6"):
        lift(captures(), (BATCH, replace(SEQ, maximum=6, default=2)), {"seq": 2})


@pytest.mark.parametrize("grid", [GRID[:6], [(1, 1)] * 9, [(1, s) for s in range(1, 9)]])
def test_too_few_independent_captures_are_refused(grid: list[tuple[int, int]]) -> None:
    with pytest.raises(WorkloadError, match=r"needs more than 6 captures at independent sizes"):
        lift(captures(grid=grid), (BATCH, SEQ), {"seq": 2})


def test_a_capture_must_name_every_symbol() -> None:
    with pytest.raises(WorkloadError, match=r"a capture at batch=1 lacks or exceeds"):
        lift([({"batch": 1}, captured(1, 1))], (BATCH, SEQ))


def test_lifting_twice_is_refused() -> None:
    once = lift(captures(), (BATCH, SEQ), {"seq": 2})
    with pytest.raises(WorkloadError, match="captures at fixed sizes"):
        lift([({"batch": 1, "seq": 1}, once)], (BATCH, SEQ))


@settings(deadline=None)
@given(st.lists(st.integers(0, 50), min_size=6, max_size=6))
def test_any_polynomial_in_the_basis_is_found_again(coefficients: list[int]) -> None:
    def value(b: int, s: int) -> int:
        c = coefficients
        return c[0] + c[1] * b + c[2] * s + c[3] * b * s + c[4] * s * s + c[5] * b * s * s

    def build(b: int, s: int) -> Workload:
        op = Op(kind="x", sizes={"n": value(b, s)})
        return Workload(name="p", dtype="fp32", tensors=(), ops=(op,))

    lifted = lift(captures(build), (BATCH, SEQ), {"seq": 2})
    assert bind(lifted, {"batch": 13, "seq": 17}).ops[0].sizes["n"] == value(13, 17)
