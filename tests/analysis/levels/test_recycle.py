"""Which memory intermediates share."""

from hypothesis import given
from hypothesis import strategies as st

from gambrel.analysis.levels.recycle import blocks_of
from gambrel.ops import OpView, TensorView


def op(inputs, outputs):
    def tensors(storages):
        return tuple(TensorView(shape=(1,), dtype="fp32", elements=1, storage=s) for s in storages)

    return OpView(kind="elementwise", inputs=tensors(inputs), outputs=tensors(outputs))


def test_a_chain_alternates_between_two_blocks():
    chain = [op([i], [i + 1]) for i in range(5)]
    sizes = dict.fromkeys(range(6), 100.0)
    # 0 comes from outside; 1 is alive while 2 is made, and free when 3 is.
    assert blocks_of(chain, sizes, {0, 5}) == {1: 1, 2: 2, 3: 1, 4: 2}


def test_a_skip_connection_holds_its_block():
    block = [op([0], [1]), op([1], [2]), op([2], [3]), op([1, 3], [4])]
    sizes = dict.fromkeys(range(5), 100.0)
    assert blocks_of(block, sizes, {0}) == {1: 1, 2: 2, 3: 3, 4: 2}


def test_sizes_must_be_alike():
    chain = [op([0], [1]), op([1], [2]), op([2], [3])]
    alike = {0: 1.0, 1: 1000.0, 2: 1.0, 3: 990.0}
    unlike = {0: 1.0, 1: 1000.0, 2: 1.0, 3: 600.0}
    assert blocks_of(chain, alike, {0})[3] == 1
    assert blocks_of(chain, unlike, {0})[3] == 3


def test_what_is_read_first_keeps_its_own_memory():
    assert blocks_of([op([7], [1])], {7: 10.0, 1: 10.0}, set()) == {1: 1}


@st.composite
def programs(draw):
    sizes = {s: draw(st.sampled_from([10.0, 11.0, 100.0])) for s in range(8)}
    pick = st.lists(st.integers(0, 7), max_size=3, unique=True)
    return sizes, [op(draw(pick), draw(pick)) for _ in range(draw(st.integers(1, 10)))]


@given(programs())
def test_two_that_are_alive_never_share(program):
    sizes, ops = program
    blocks = blocks_of(ops, sizes, {0})
    assert 0 not in blocks
    uses = {}
    for position, view in enumerate(ops):
        for t in (*view.inputs, *view.outputs):
            uses.setdefault(t.storage, []).append(position)
    spans = {s: (uses[s][0], uses[s][-1]) for s in blocks}
    for a in blocks:
        for b in blocks:
            if a < b and blocks[a] == blocks[b]:
                assert spans[a][1] < spans[b][0] or spans[b][1] < spans[a][0]
