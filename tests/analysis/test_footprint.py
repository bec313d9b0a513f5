"""Memory over time by hand, by brute force, and the laws that hold for any workload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gambrel
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.checkpointing import checkpointed
from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import footprint
from gambrel.analysis.liveness import lifetimes, live_bytes
from gambrel.analysis.needs import Footprint
from gambrel.analysis.timeline import memory_timeline
from gambrel.errors import InputError
from gambrel.ops import Conventions
from gambrel.workload import Op, Phase, Role, Tensor, Workload
from tests.analysis.small import device, perceptron

KIB = 1 << 10


def fp32(storage, elements=1, **more):
    """A tensor of ``elements`` fp32 numbers: 4 bytes each."""
    return Tensor(shape=(elements,), dtype="fp32", storage=storage, **more)


def step(inputs, outputs, module="", phase=Phase.FORWARD, name="aten.add", kind="elementwise"):
    return Op(
        kind=kind, name=name, inputs=inputs, outputs=outputs, module=module, phase=phase,
        sizes={"elements": 1}, attrs={"function": "add"},
    )  # fmt: skip


def workload(tensors, ops, outputs=(), **more):
    return Workload(
        name="w", dtype="fp32", tensors=tuple(tensors), ops=tuple(ops), outputs=outputs, **more
    )


def evaluator(found):
    return Evaluator(found, {}, {}, Conventions())


def totals(found):
    live = live_bytes(lifetimes(found, evaluator(found)), len(found.ops))
    return [sum(step) for step in zip(*live.values(), strict=True)]


def test_chain():
    # x (8 B, the caller holds it) → a (4 B) → b (8 B) → c (4 B, returned)
    chain = workload(
        [fp32(0, 2, role=Role.INPUT), fp32(1), fp32(2, 2), fp32(3)],
        [step((0,), (1,)), step((1,), (2,)), step((2,), (3,))],
        outputs=(3,),
    )
    assert totals(chain) == [8 + 4, 8 + 4 + 8, 8 + 8 + 4]


def test_skip_connection_stays_across_its_block():
    # a is read again by the last op
    skip = workload(
        [fp32(0, role=Role.INPUT), fp32(1, 2), fp32(2), fp32(3), fp32(4)],
        [step((0,), (1,)), step((1,), (2,)), step((2,), (3,)), step((1, 3), (4,))],
        outputs=(4,),
    )
    assert totals(skip) == [4 + 8, 4 + 8 + 4, 4 + 8 + 4 + 4, 4 + 8 + 4 + 4]


def test_in_place_and_views_take_no_new_memory():
    tensors = [
        fp32(0, role=Role.INPUT),
        fp32(1, 4),
        fp32(1, 4, version=1),  # written in place
        Tensor(shape=(2,), dtype="fp32", storage=1, offset=2, version=1),  # a view of it
        fp32(2),
    ]
    in_place = workload(
        tensors, [step((0,), (1,)), step((1,), (2,)), step((3,), (4,))], outputs=(4,)
    )
    assert totals(in_place) == [4 + 16, 4 + 16, 4 + 16 + 4]


def test_a_storage_is_as_large_as_its_largest_tensor_in_bytes():
    tensors = [
        Tensor(shape=(6,), dtype="int8", storage=0),
        Tensor(shape=(2,), dtype="fp32", storage=0),
    ]
    assert totals(workload(tensors, [step((), (0,)), step((1,), (1,))])) == [8, 8]


def test_the_caller_holds_an_argument_until_the_module_returns():
    # mlp reads a (8 B) in its first op only; after mlp it is gone
    held = workload(
        [fp32(0, role=Role.INPUT), fp32(1, 2), fp32(2), fp32(3), fp32(4)],
        [
            step((0,), (1,), "norm"),
            step((1,), (2,), "mlp.up"),
            step((2,), (3,), "mlp.down"),
            step((3,), (4,), "head"),
        ],
        outputs=(4,),
    )
    assert totals(held) == [4 + 8, 4 + 8 + 4, 4 + 8 + 4 + 4, 4 + 4 + 4]


def test_two_calls_of_one_module_are_two_calls():
    # b is read by the second call of block; a is not held beyond the first
    twice = workload(
        [fp32(0, role=Role.INPUT), fp32(1, 2), fp32(2), fp32(3), fp32(4)],
        [
            step((0,), (1,), "a"),
            step((1,), (2,), "block"),
            step((2,), (3,), "b"),
            step((3,), (4,), "block"),
        ],
        outputs=(4,),
    )
    assert totals(twice) == [4 + 8, 4 + 8 + 4, 4 + 4 + 4, 4 + 4 + 4]


def test_pooling_writes_indices_that_nobody_reads():
    # 3 outputs: int64 indices take 3 * 8 bytes while the op runs
    pool = workload(
        [fp32(0, 12, role=Role.INPUT), fp32(1, 3), fp32(2)],
        [step((0,), (1,), name="aten.max_pool2d_with_indices"), step((1,), (2,))],
        outputs=(2,),
    )
    assert totals(pool) == [48 + 12 + 24, 48 + 12 + 4]


def test_caches_that_exist_are_there_from_the_start():
    def cache(version):
        return [
            fp32(0, role=Role.INPUT),
            fp32(1, role=Role.ACTIVATION),
            fp32(2, 10, role=Role.KV_CACHE, version=version),
        ]

    ops = [step((0,), (1,)), step((1,), (2,), kind="copy")]
    assert totals(workload(cache(1), ops, outputs=(2,))) == [4 + 4 + 40, 4 + 4 + 40]
    assert totals(workload(cache(0), ops, outputs=(2,))) == [4 + 4, 4 + 4 + 40]


def test_training_step():
    # w (12 B) and its state (12 B) throughout; the gradient (12 B) from backward to the end
    tensors = [
        fp32(0, role=Role.INPUT),
        fp32(1, 3, role=Role.WEIGHT, name="w"),
        fp32(2),
        fp32(3),
        fp32(4, 3, role=Role.GRADIENT, name="w.grad"),
        fp32(5, 3, role=Role.OPTIMIZER_STATE),
        fp32(1, 3, role=Role.WEIGHT, name="w", version=1),
        fp32(5, 3, role=Role.OPTIMIZER_STATE, version=1),
    ]
    ops = [
        step((0, 1), (2,)),
        step((2,), (3,), phase=Phase.BACKWARD),
        step((0, 3), (4,), phase=Phase.BACKWARD, name="aten.mm"),
        step((1, 4, 5), (6, 7), phase=Phase.OPTIMIZER, name="sgd"),
    ]
    found = workload(tensors, ops, outputs=(2,), training=True)
    always = 4 + 12 + 12
    assert totals(found) == [always + 4, always + 8, always + 8 + 12, always + 4 + 12]
    needs = footprint(found, evaluator(found), 60)
    assert needs.weights_bytes == needs.optimizer_bytes == needs.gradients_bytes == 12
    assert needs.activations_bytes == 4 + 4 + 4
    assert needs.peak_op == "(top) aten.mm"
    assert needs.total_bytes == 48
    assert needs.fits
    assert footprint(found, evaluator(found), 47).fits is False
    assert footprint(found, evaluator(found), None).fits is None


def test_both_products_of_a_derivative_hold_what_was_saved():
    # a and b (saved, 8 B each) go when both products with the gradient g are done
    tensors = [
        fp32(0, 2, role=Role.INPUT), fp32(1, 2), fp32(2, 2), fp32(3), fp32(4), fp32(5), fp32(6),
    ]  # fmt: skip
    ops = [
        step((0,), (1,), name="one"),
        step((0,), (2,), name="two"),
        step((1, 2), (3,), phase=Phase.BACKWARD, name="three"),
        step((3, 1), (4,), phase=Phase.BACKWARD, name="aten.mul"),
        step((3, 2), (5,), phase=Phase.BACKWARD, name="aten.mul"),
        step((4, 5), (6,), phase=Phase.BACKWARD, name="four"),
    ]
    assert totals(workload(tensors, ops))[4] == 8 + (8 + 8) + 4 + 4 + 4


def test_tied_and_quantized_weights():
    # 64 elements of nvfp4: 64 * 4 bits + 64/16 scales of 8 bits = 32 + 4 bytes; tied: once
    tied = [
        Tensor(shape=(64,), dtype="nvfp4", storage=0, role=Role.WEIGHT, name="embed"),
        Tensor(shape=(64,), dtype="nvfp4", storage=0, role=Role.WEIGHT, name="head"),
        # 32 elements of mxfp4: 16 bytes and one scale
        Tensor(shape=(32,), dtype="mxfp4", storage=1, role=Role.WEIGHT, name="up"),
        # 3 elements of int4: one byte and a half, rounded up
        Tensor(shape=(3,), dtype="int4", storage=2, role=Role.WEIGHT, name="odd"),
    ]
    found = workload(tied, [])
    assert footprint(found, evaluator(found), None).weights_bytes == 36 + 17 + 2


def test_no_ops():
    found = workload([fp32(0, role=Role.WEIGHT)], [])
    needs = footprint(found, evaluator(found), None)
    assert (needs.total_bytes, needs.peak_op) == (4, "")


@st.composite
def programs(draw):
    """Straight-line programs over a few storages, weights among them."""
    roles = draw(st.lists(st.sampled_from(list(Role)), min_size=2, max_size=8))
    tensors = [fp32(i, draw(st.integers(1, 9)), role=role) for i, role in enumerate(roles)]
    index = st.integers(0, len(tensors) - 1)
    names = st.sampled_from(["", "a", "a.b", "b", "b.c.d"])
    ops = [
        step(tuple(draw(st.lists(index, max_size=3))), tuple(draw(st.lists(index, max_size=2))), m)
        for m in draw(st.lists(names, max_size=8))
    ]  # fmt: skip
    return workload(tensors, ops, outputs=tuple(draw(st.lists(index, max_size=2))))


@given(programs())
def test_laws(found):
    needs = footprint(found, evaluator(found), None)
    weights = {t.storage: 4 * t.shape[0] for t in found.tensors if t.role is Role.WEIGHT}
    everything = sum(4 * t.shape[0] for t in found.tensors)
    touched = [
        sum(4 * found.tensors[i].shape[0] for i in {*op.inputs, *op.outputs}) for op in found.ops
    ]
    assert needs.total_bytes >= sum(weights.values())
    assert max(touched, default=0) <= needs.total_bytes <= everything


@given(programs())
def test_sums_by_brute_force(found):
    """Every op adds up, one storage at a time, what is alive: no running sums."""
    lives = lifetimes(found, evaluator(found))
    expected = [
        sum(life.nbytes for life in lives if life.first <= position <= life.last)
        for position in range(len(found.ops))
    ]
    assert totals(found)[: len(expected)] == expected


def test_timeline_of_an_analysis():
    found = analyze(perceptron(), device(), Settings(sizes={"batch": 2}, precision="fp16"))
    line = found.memory_timeline()
    # fp16: weights 4*8*2 + 8*2*2 = 96; x 16; h 32; relu 32; y 8
    assert [p.total_bytes for p in line.points] == [144, 176, 152]
    assert (line.peak_index, line.peak_bytes) == (1, 176)
    assert line.peak.op == found.footprint.peak_op == "act aten.relu"
    assert line.peak_bytes == found.footprint.total_bytes
    assert (line.at_peak[0].name, line.at_peak[0].nbytes) == ("w1", 64)
    assert [t.nbytes for t in line.at_peak] == [64, 32, 32, 32, 16]
    hidden = next(t for t in line.at_peak if t.made_by == "fc1 aten.mm")
    assert (hidden.shape, hidden.dtype, hidden.last_used_by) == ((2, 8), "fp16", "act aten.relu")
    assert any("workspace" in text for text in line.assumptions)


@pytest.mark.parametrize("name", ["resnet50", "gpt2-decode", "yolov8n", "llama-3.2-1b-prefill"])
def test_one_peak_everywhere(name):
    found = gambrel.analyze(name, "h100")
    line = found.memory_timeline()
    assert line.peak_bytes == found.footprint.total_bytes
    assert line.peak.op == found.footprint.peak_op
    assert sum(t.nbytes for t in line.at_peak) == line.peak_bytes
    assert line.peak_bytes >= found.footprint.weights_bytes > found.model.parameters


def test_needs_the_workload():
    import msgspec

    bare = msgspec.structs.replace(analyze(perceptron(), device()), workload=None)
    with pytest.raises(InputError, match="saved without its workload: analyze the model again"):
        memory_timeline(bare)


def two_blocks():
    """x → [a1 → b1] → [a2 → b2] → loss; backward reads a1 and a2 (40 B each), and b1."""
    tensors = [
        fp32(0, role=Role.INPUT),
        fp32(1, 10), fp32(2), fp32(3, 10), fp32(4),
        fp32(5), fp32(6), fp32(7),
    ]  # fmt: skip
    back = Phase.BACKWARD
    ops = [
        step((0,), (1,), "layers.0.up"),
        step((1,), (2,), "layers.0.down"),
        step((2,), (3,), "layers.1.up"),
        step((3,), (4,), "layers.1.down"),
        step((4,), (5,), phase=back, name="start"),
        step((5, 3, 2), (6,), "layers.1.up", back, "grad1"),
        step((6, 1), (7,), "layers.0.up", back, "grad0"),
    ]
    return workload(tensors, ops, outputs=(4,), training=True)


def test_checkpointing_keeps_one_block_at_a_time():
    plain = two_blocks()
    # at grad1: x, a1, b1, a2, loss, the start's output, its own
    assert max(totals(plain)) == totals(plain)[5] == 4 + 40 + 4 + 40 + 4 + 4 + 4
    changed = checkpointed(plain)
    assert changed.blocks == 2
    names = [op.name for op in changed.workload.ops]
    assert names[4:] == ["start", "aten.add again", "grad1", "aten.add again", "grad0"]
    assert changed.recomputed == {5, 7}
    assert all(changed.workload.ops[i].phase is Phase.BACKWARD for i in changed.recomputed)
    after = totals(changed.workload)
    # while a2 is computed again: x, b1, loss, g, a2; a1 is gone
    assert after[5] == 4 + 4 + 4 + 4 + 40
    assert max(after) < max(totals(plain))


def test_checkpointing_by_name_and_its_errors():
    assert checkpointed(two_blocks(), "layers.*").blocks == 2
    assert checkpointed(two_blocks(), "layers").blocks == 1
    assert checkpointed(two_blocks(), "*.1").blocks == 1
    with pytest.raises(InputError, match=r"no module matches 'nothing\.\*'; name the blocks by"):
        checkpointed(two_blocks(), "nothing.*")
    with pytest.raises(InputError, match="w has no backward pass: checkpointing is for training"):
        checkpointed(workload([fp32(0)], [step((0,), (0,))]))
    flat = workload([fp32(0)], [step((0,), (0,), "a"), step((0,), (0,), "a", Phase.BACKWARD)])
    with pytest.raises(InputError, match="no module path holds a number"):
        checkpointed(flat)


@pytest.mark.parametrize(
    ("weights", "rest", "fits"),
    [
        (400 * KIB, 100 * KIB, True),
        (700 * KIB, 100 * KIB, False),  # more than both memories together
        (520 * KIB, 100 * KIB, None),  # more than the flash alone
        (400 * KIB, 150 * KIB, None),  # more than the SRAM alone
    ],
)
def test_weights_lie_in_flash_and_the_rest_in_sram(weights, rest, fits):
    """An STM32G0B1: 512 KiB of flash, 144 KiB of SRAM."""
    need = Footprint(weights_bytes=weights, activations_bytes=rest)
    assert need.within(656 * KIB, 512 * KIB).fits is fits


@pytest.mark.parametrize(("model", "fits"), [("ds-cnn", True), ("resnet50", False)])
def test_every_face_says_whether_a_board_holds_a_model(model, fits):
    one = gambrel.analyze(model, "stm32l4r5", runtime="hale").footprint
    assert (one.fits, one.capacity_bytes) == (fits, (2 << 20) + 640 * KIB)
    (row,) = gambrel.compare(model, "stm32l4r5", runtime="hale").rows
    assert row.fits is fits
    assert gambrel.sweep(model, "stm32l4r5", runtime="hale").table["fits"].tolist() == [fits]
