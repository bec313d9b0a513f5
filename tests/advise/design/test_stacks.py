"""Fused groups of layers, by hand and as laws."""

from hypothesis import given
from hypothesis import strategies as st

from gambrel.advise.design.layers import model_layers
from gambrel.advise.design.stacks import FusedStep, fused_groups, fusion_depth
from gambrel.capture import zoo


def step(resident, traffic=100.0, inner=40.0):
    return FusedStep(resident_bytes=resident, traffic_bytes=traffic, inner_bytes=inner)


def test_groups_by_hand():
    steps = [step(3), step(4), step(5), step(20), step(1)]
    groups = fused_groups(steps, 8)
    assert [[s.resident_bytes for s in group] for group in groups] == [[3, 4], [5], [20], [1]]
    depth = fusion_depth("m", steps, 8)
    assert (depth.stacks, depth.deepest, depth.mean) == (4, 2, 1.25)
    assert depth.traffic_bytes == 500 - 40
    assert fusion_depth("m", [], 8) is None


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(0, 60))
def test_every_layer_is_in_one_group_that_fits(sizes, room):
    groups = fused_groups([step(n) for n in sizes], room)
    assert [s.resident_bytes for group in groups for s in group] == sizes
    assert all(len(g) == 1 or sum(s.resident_bytes for s in g) <= room for g in groups)
    assert len(fused_groups([step(n) for n in sizes], room + 10)) <= len(groups)


def test_a_model_of_plenty_is_one_group_that_moves_weights_and_ends():
    model = model_layers(zoo.load("resnet18"), {}, "int8", "int32")
    depth = fusion_depth(model.name, model.chain, 1e9)
    assert depth.stacks == 1
    weights, ends = 11.69e6, 3 * 224 * 224 + 1000
    alone = sum(one.traffic_bytes for one in model.chain)
    # residual branches leave the chain, and are read again
    assert weights + ends < depth.traffic_bytes < alone
    less = fusion_depth(model.name, model.chain, 256 << 10)
    assert less.stacks > 1
    assert less.traffic_bytes > depth.traffic_bytes
