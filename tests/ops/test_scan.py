"""State-space scans: published counts, and recurrences that really run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.builders import costed, counts, matrix, op, tensor, vector
from tests.ops.oracle import Tally, exp, fma
from tests.ops.programs import silu, softplus

small = st.integers(1, 4)


def test_mamba_130m():
    """24 layers, 128 tokens, 1,536 channels, 16 states."""
    layer = op("selective_scan", {"batch": 1, "seq": 128, "channels": 1536, "state": 16})
    updates = 24 * 128 * 1536 * 16
    assert updates == 75_497_472
    assert 24 * matrix(layer) == 2 * 75_497_472  # read-out: 0.0755 GMAC
    assert 24 * vector(layer) == 452_984_832  # 6 FLOP per token, channel and state: 0.453e9
    assert 24 * counts(layer)[2] == 75_497_472  # exponentials


@settings(max_examples=25, deadline=None)
@given(small, small, small, small, st.booleans(), st.booleans(), st.booleans())
def test_selective_scan_step_by_step(b, seq, channels, state, skip, gate, softened):
    tally, exponentials = Tally(), 0
    for _ in range(b * channels):
        h = [tally.number(0.0) for _ in range(state)]
        for _ in range(seq):
            delta, x, y = tally.number(0.1), tally.number(0.5), tally.number(0.0)
            if softened:
                delta = softplus(delta + 0.3)
            for i, (a, bb, c) in enumerate(
                zip(*(tally.numbers(state) for _ in "abc"), strict=True)
            ):
                h[i] = exp(delta * a) * h[i] + delta * bb * x
                exponentials += 1
                y = fma(y, c, h[i])
            if skip:
                y = y + x * 0.7
            if gate:
                y = y * silu(tally.number(0.2))
    sizes = {"batch": b, "seq": seq, "channels": channels, "state": state}
    view = op("selective_scan", sizes, skip=skip, gate=gate, softplus=softened)
    # Published counts take the exponential of the recurrence as one FLOP; it is an evaluation too.
    expected = (2 * tally.multiply_adds, tally.vector + exponentials, tally.special)
    assert counts(view) == expected


@settings(max_examples=25, deadline=None)
@given(small, small, small)
def test_selective_scan_backward_step_by_step(seq, channels, state):
    tally, exponentials = Tally(), 0
    zero = tally.number
    for _ in range(channels):
        for _ in range(seq):
            delta, x, dy = zero(0.1), zero(0.5), zero(1.0)
            spread, dx_delta, ddelta = delta * x, zero(0.0), zero(0.0)
            for _ in range(state):
                a, bb, c, before, next_dh = (zero(v) for v in (0.1, 0.2, 0.3, 0.4, 0.5))
                decay = exp(delta * a)
                exponentials += 1
                h = decay * before + delta * bb * x
                fma(zero(0.0), dy, h)  # dC
                dh = fma(zero(0.4) * next_dh, dy, c)
                d_exponent = dh * before * decay
                zero(0.0) + d_exponent * delta  # dA
                ddelta = ddelta + d_exponent * a
                zero(0.0) + dh * spread  # dB
                dx_delta = dx_delta + dh * bb
            dx_delta * delta  # dx
            ddelta + dx_delta * x
    sizes = {"batch": 1, "seq": seq, "channels": channels, "state": state}
    view = op("selective_scan_backward", sizes)
    assert counts(view) == (2 * tally.multiply_adds, tally.vector + exponentials, tally.special)


def test_around_the_scan_backward():
    sizes = {"batch": 2, "seq": 3, "channels": 5, "state": 7}
    bare = counts(op("selective_scan_backward", sizes))

    def more(**attrs):
        found = counts(op("selective_scan_backward", sizes, **attrs))
        return found[1] - bare[1], found[2] - bare[2]

    assert more(skip=True) == (30 * 4, 0)
    assert more(gate=True) == (30 * 11, 30)
    assert more(softplus=True) == (30 * 10, 30 * 3)


def test_states_stay_on_chip():
    tokens = tuple(tensor(1, 128, 1536, dtype="bf16") for _ in range(3))
    parameters = (tensor(1536, 16), tensor(1, 128, 16), tensor(1, 128, 16))
    view = op(
        "selective_scan",
        {"batch": 1, "seq": 128, "channels": 1536, "state": 16},
        inputs=(*tokens[:2], *parameters),
        outputs=tokens[2:],
    )
    found = costed(view)
    assert found.read_bytes == 2 * 128 * 1536 * 2 + (1536 + 2 * 128) * 16 * 4
    assert found.write_bytes == 128 * 1536 * 2
    assert {dtype for _, dtype in found.work} == {"bf16"}


def contract(tally: Tally, times: int) -> None:
    for _ in range(times):
        fma(tally.number(0.0), tally.number(0.1), tally.number(0.2))


def one_head_of_a_chunk(tally: Tally, length: int, p: int, n: int) -> None:
    zero = tally.number
    logs = [zero(0.1) * zero(-1.0) for _ in range(length)]
    for i in range(1, length):
        logs[i] = logs[i] + logs[i - 1]
    inputs = [[x * 0.1 for x in tally.numbers(p)] for _ in range(length)]
    for i, j in causal(length):
        zero(0.3) * exp(logs[i] - logs[j])  # decay times score
        contract(tally, len(inputs[j]))  # times x
    for j in range(length):
        late = exp(logs[-1] - logs[j])
        contract(tally, n * len([late * x for x in inputs[j]]))  # state of the chunk
    for i in range(length):
        early = exp(logs[i])
        contract(tally, n * p)  # C · state before
        for _ in range(p):
            zero(0.4) + early * zero(0.5)
    decay = exp(logs[-1])
    for _ in range(n * p):
        zero(0.1) * decay + zero(0.2)


def causal(length: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(length) for j in range(i + 1)]


@settings(max_examples=25, deadline=None)
@given(small, st.integers(1, 9), small, small, small, st.integers(1, 2), st.integers(1, 5))
def test_ssd_chunk_by_chunk(b, seq, per_group, p, n, groups, chunk):
    tally, heads = Tally(), per_group * groups
    chunks = [min(chunk, seq - start) for start in range(0, seq, chunk)]
    for length in chunks * b:
        contract(tally, groups * len(causal(length)) * n)  # C · B
        for _ in range(heads):
            one_head_of_a_chunk(tally, length, p, n)
    sizes = {"batch": b, "seq": seq, "heads": heads, "head_dim": p, "state": n}
    view = op("ssd_scan", sizes | {"groups": groups, "chunk": chunk})
    assert counts(view) == (2 * tally.multiply_adds, tally.vector, tally.special)


MAMBA2 = {"batch": 1, "seq": 512, "heads": 24, "head_dim": 64, "state": 128, "groups": 1}


def test_ssd_by_hand():
    view = op("ssd_scan", MAMBA2 | {"chunk": 256})
    pairs = 2 * 256 * 257 // 2
    scores, values = 2 * pairs * 128, 2 * pairs * 24 * 64
    states = 2 * 512 * 24 * 128 * 64
    assert matrix(view) == scores + values + 2 * states
    full = op("ssd_scan", MAMBA2 | {"chunk": 256}, causal_pairs="full")
    assert matrix(full) == 2 * 2 * 256 * 256 * (128 + 24 * 64) + 2 * states
    backward = op("ssd_scan_backward", MAMBA2 | {"chunk": 256})
    assert matrix(backward) == 3 * scores + 2 * values + 3 * states + 2 * states
    assert vector(backward) == 3 * vector(view)
    assert counts(backward)[2] == counts(view)[2]


def test_ssd_has_one_group_unless_said():
    unsaid = {name: size for name, size in MAMBA2.items() if name != "groups"}
    views = [op("ssd_scan", sizes | {"chunk": 256}) for sizes in (unsaid, MAMBA2)]
    assert costed(views[0]) == costed(views[1])


def test_ssd_skip():
    bare, skip = (op("ssd_scan", MAMBA2 | {"chunk": 256}, skip=s) for s in (False, True))
    assert vector(skip) - vector(bare) == 512 * 24 * 64 * 2


@pytest.mark.parametrize("kind", ["selective_scan", "selective_scan_backward"])
def test_linear_in_batch_and_length(kind):
    sizes = {"batch": 1, "seq": 10, "channels": 8, "state": 4}
    once = counts(op(kind, sizes))
    assert counts(op(kind, sizes | {"batch": 3})) == tuple(3 * n for n in once)
    assert counts(op(kind, sizes | {"seq": 1000})) == tuple(100 * n for n in once)
