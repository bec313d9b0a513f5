"""Layouts against the sizes of a model."""

from __future__ import annotations

import pytest

from gambrel.errors import InputError
from gambrel.llm.layouts import candidates, check, of_degrees, problem
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import (
    Attention,
    LatentAttention,
    Layer,
    LayerGroup,
    Mixture,
    Mlp,
    ModelSpec,
    StateSpaceDual,
)


def model(mixer, feed_forward, count=32, name="model"):
    group = LayerGroup(layer=Layer(mixer=mixer, feed_forward=feed_forward), count=count)
    return ModelSpec(name=name, family="test", hidden=4096, vocab=32000, layers=(group,))


DENSE = model(Attention(heads=32, kv_heads=8, head_dim=128), Mlp(width=14336), name="dense")
MIXTURE = model(
    Attention(heads=32, kv_heads=4, head_dim=128),
    Mixture(experts=128, top_k=8, width=768),
    name="mixture",
)
LATENT = model(
    LatentAttention(
        heads=128, kv_lora_rank=512, nope_head_dim=128, rope_head_dim=64, v_head_dim=128
    ),
    Mixture(experts=256, top_k=8, width=2048, shared_width=2048),
    name="latent",
)


def test_heads_that_do_not_divide():
    with pytest.raises(
        InputError,
        match=r"tensor=3 does not divide the 32 attention heads of dense; "
        r"it may be 1, 2, 4, 8, 16, 32\.",
    ):
        check(Sharding(tensor=3), DENSE)


def test_key_value_heads_are_copied_to_a_multiple_but_never_cut():
    assert not problem(Sharding(tensor=16), DENSE)
    odd = model(Attention(heads=24, kv_heads=8, head_dim=128), Mlp(width=12288), name="odd")
    assert "12 does not divide the 8 key/value heads of odd" in problem(Sharding(tensor=12), odd)


def test_experts_that_do_not_divide():
    three = model(
        Attention(heads=24, kv_heads=8, head_dim=64), Mixture(experts=10, top_k=2, width=96)
    )
    assert "expert=4 does not divide the 10 experts" in problem(Sharding(tensor=4, expert=4), three)
    assert "it may be 1, 2, 5, 10" in problem(Sharding(tensor=4, expert=4), three)
    assert "has no experts" in problem(Sharding(tensor=4, expert=4), DENSE)


def test_the_width_of_an_expert():
    assert "does not divide the 100 columns of an expert" in problem(
        Sharding(tensor=8),
        model(Attention(heads=32, kv_heads=8, head_dim=64), Mixture(experts=8, top_k=2, width=100)),
    )


def test_more_devices_than_there_are():
    with pytest.raises(InputError, match=r"TP8 PP2 needs 16 devices .* and there are 8"):
        check(Sharding(tensor=8, pipeline=2), DENSE, devices=8)


def test_more_stages_than_layers():
    assert "pipeline=64: dense has 32 layers; at most so many stages" in problem(
        Sharding(pipeline=64), DENSE
    )


def test_state_space_heads():
    mamba = model(StateSpaceDual(heads=24, head_dim=64, state=128, groups=1, conv_kernel=4), None)
    assert "16 does not divide the 24 state-space heads" in problem(Sharding(tensor=16), mamba)


def test_candidates_fit_and_differ():
    for spec in (DENSE, MIXTURE, LATENT):
        found = candidates(spec, 16)
        assert len(set(found)) == len(found)
        assert all(layout.devices <= 16 and not problem(layout, spec) for layout in found)
    assert Sharding(tensor=8) in candidates(DENSE, 8)
    assert not any(layout.expert > 1 for layout in candidates(DENSE, 8))
    assert Sharding(tensor=8, expert=8) in candidates(MIXTURE, 8)
    assert Sharding(tensor=8, expert=8, attention_data=8) in candidates(LATENT, 8)
    assert {layout.pipeline for layout in candidates(DENSE, 8, pipeline=False)} == {1}


def test_degrees_that_leave_nothing_open():
    assert of_degrees(DENSE, 64, {"tensor": 4, "data": 2}) == (Sharding(tensor=4, data=2),)
    assert of_degrees(DENSE, 64, {"data": 8}) == (Sharding(data=8),)


def test_experts_leave_tensor_open_to_their_multiples():
    found = of_degrees(MIXTURE, 64, {"expert": 8, "pipeline": 2})
    # 2 stages of 8, 16 or 32 devices; 4 key/value heads are copied, 32 heads divide
    assert [s.tensor for s in found] == [8, 16, 32]
    assert {(s.expert, s.pipeline) for s in found} == {(8, 2)}
    assert all(s.devices <= 64 for s in found)


def test_attention_groups_and_experts_share_a_multiple():
    found = of_degrees(LATENT, 16, {"expert": 4, "attention_data": 8})
    assert [(s.tensor, s.expert, s.attention_data) for s in found] == [(8, 4, 8), (16, 4, 8)]


def test_a_layout_that_never_fits_is_given_as_it_is():
    """So that the refusal names what does not divide."""
    (found,) = of_degrees(MIXTURE, 64, {"expert": 3})
    assert found.tensor == 3
    assert "3 does not divide" in problem(found, MIXTURE)
