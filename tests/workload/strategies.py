"""Arbitrary workloads, for laws that hold for all of them."""

from __future__ import annotations

from hypothesis import strategies as st

from gambrel.workload import Op, Phase, Role, Symbol, Tensor, Workload

counts = st.integers(min_value=0, max_value=2**62)
dims = counts | st.sampled_from(["batch", "1/2*batch*seq^2 + 3", "12*seq"])
words = st.text(max_size=8)
attributes = st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | words

symbols = st.builds(
    Symbol,
    name=st.sampled_from(["batch", "seq"]),
    default=st.integers(1, 64),
    maximum=st.none() | st.integers(64, 4096),
    about=words,
)
tensors = st.builds(
    Tensor,
    shape=st.lists(dims, max_size=4).map(tuple),
    dtype=st.sampled_from(["fp32", "bf16", "int64"]),
    storage=st.integers(0, 1000),
    offset=dims,
    elements=st.none() | dims,
    version=st.integers(0, 3),
    role=st.sampled_from(Role),
    name=words,
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    held = draw(st.lists(tensors, max_size=6))
    refers = st.lists(st.integers(0, len(held) - 1), max_size=4).map(tuple) if held else st.just(())
    ops = st.builds(
        Op,
        kind=st.sampled_from(["matmul", "view", "copy"]),
        inputs=refers,
        outputs=refers,
        sizes=st.dictionaries(words, dims | st.lists(dims, max_size=3).map(tuple), max_size=3),
        attrs=st.dictionaries(words, attributes, max_size=3),
        name=words,
        module=words,
        source=words,
        phase=st.sampled_from(Phase),
        repeat=st.integers(1, 9),
    )
    return Workload(
        name=draw(words),
        dtype="fp32",
        tensors=tuple(held),
        ops=tuple(draw(st.lists(ops, max_size=6))),
        outputs=draw(refers),
        symbols=tuple(draw(st.lists(symbols, max_size=2))),
        training=draw(st.booleans()),
        origin=draw(words),
        chosen_dtype=draw(st.booleans()),
        assumptions=tuple(draw(st.lists(words, max_size=2))),
    )
