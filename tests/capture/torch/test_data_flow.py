"""Storages, versions, names and roles of what is captured."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from gambrel.capture.torch import capture
from gambrel.workload import Role
from tests.capture.torch.models import cached
from tests.capture.torch.reading import only, shapes

pytestmark = pytest.mark.torch


class Lambda(nn.Module):
    def __init__(self, function, **state):
        super().__init__()
        self.function = function
        for name, value in state.items():
            if isinstance(value, nn.Parameter | nn.Module):
                setattr(self, name, value)
            else:
                self.register_buffer(name, value)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def test_in_place_through_a_view_makes_a_new_version_of_the_base():
    def run(self, x):
        y = x + 1  # storage of y, version 0
        y[:, 0].mul_(2)  # writes a part of it: version 1
        return y.exp()

    w = capture(Lambda(run), torch.randn(4, 8))
    add, mul, exp = w.ops
    made, seen = w.tensors[add.outputs[0]], w.tensors[exp.inputs[0]]
    written = w.tensors[mul.outputs[0]]
    assert made.storage == seen.storage == written.storage
    assert (made.version, written.version, seen.version) == (0, 1, 1)
    assert written.shape == (4,)
    assert seen.shape == (4, 8)


def test_q_k_v_slices_share_the_projection_at_three_offsets():
    def run(self, x):
        q, k, v = self.proj(x).split(8, dim=-1)
        return q.exp() + k.exp() + v.exp()

    w = capture(Lambda(run, proj=nn.Linear(8, 24)), torch.randn(2, 8))
    parts = [w.tensors[op.inputs[0]] for op in w.ops if op.name == "aten.exp"]
    assert len({t.storage for t in parts}) == 1
    assert [t.offset for t in parts] == [0, 8, 16]
    assert [t.shape for t in parts] == [(2, 8)] * 3


def test_expanded_tensor_has_its_distinct_elements():
    w = capture(Lambda(lambda self, x: x.expand(5, 3) * 2), torch.randn(1, 3))
    seen = w.tensors[only(w, "elementwise").inputs[0]]
    assert (seen.shape, seen.elements) == ((5, 3), 3)


def test_cache_written_by_index_copy():
    def run(self, x, where):
        self.cache.index_copy_(1, where, x)
        return self.cache.exp()

    model = Lambda(run, cache=torch.zeros(2, 6, 4))
    w = capture(model, (torch.randn(2, 1, 4), torch.tensor([3])))
    copy, exp = w.ops
    before = model.cache
    written, read = w.tensors[copy.outputs[0]], w.tensors[exp.inputs[0]]
    assert written == read
    assert (read.version, read.role, read.name) == (1, Role.BUFFER, "cache")
    assert not before.any()  # the user's cache is as it was


def test_out_argument_and_setitem():
    def run(self, x):
        y = torch.empty_like(x)
        torch.add(x, 1, out=y)
        y[0] = 5
        return y

    w = capture(Lambda(run), torch.randn(3, 4))
    add, fill = [op for op in w.ops if op.kind != "fill" or op.outputs]
    assert w.tensors[add.outputs[0]].version == 1
    assert (fill.name, w.tensors[fill.outputs[0]].version) == ("aten.fill_", 2)
    assert shapes(w, fill.outputs) == [(4,)]


def test_module_called_three_times_counts_three_times():
    def run(self, x):
        return self.block(self.block(self.block(x)))

    w = capture(Lambda(run, block=nn.Linear(4, 4)), torch.randn(2, 4))
    products = [op for op in w.ops if op.kind == "matmul"]
    assert [op.module for op in products] == ["block"] * 3
    weights = {w.tensors[i].storage for op in products for i in op.inputs} & {
        t.storage for t in w.tensors if t.name == "block.weight"
    }
    assert len(weights) == 1


def test_forward_called_directly_is_attributed_too():
    def run(self, x):
        return self.block.forward(x)

    w = capture(Lambda(run, block=nn.Linear(4, 4)), torch.randn(2, 4))
    assert only(w, "matmul").module == "block"


def test_tied_weight_is_one_storage():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    w = capture(Tied(), torch.tensor([[1, 2]]))
    weights = [t for t in w.tensors if t.role is Role.WEIGHT]
    assert len({t.storage for t in weights}) == 1
    assert {t.name for t in weights} == {"embed.weight"}


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


def test_nested_inputs_and_outputs():
    def run(self, pair, *, extra):
        return Pair(pair.left + 1, {"deep": [pair.right * extra["scale"]]})

    given = Pair(torch.randn(2, 3), torch.randn(2, 3))
    w = capture(Lambda(run), (given,), {"extra": {"scale": torch.ones(3)}})
    assert [w.tensors[i].role for i in w.outputs] == [Role.OUTPUT] * 2
    names = {t.name for t in w.tensors if t.role is Role.INPUT}
    assert names == {"input0", "extra"}


def test_key_value_cache_has_its_role(transformers):
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    cache = transformers.DynamicCache(config=config)
    with torch.no_grad():
        model(torch.zeros(1, 5, dtype=torch.long), **cached(model, cache))
    kwargs = {"input_ids": torch.zeros(1, 1, dtype=torch.long), **cached(model, cache)}
    w = capture(model, kwargs=kwargs)
    attention = only(w, "attention")
    roles = [w.tensors[i].role for i in attention.inputs]
    assert roles == [Role.ACTIVATION, Role.KV_CACHE, Role.KV_CACHE]
    assert attention.sizes["kv_len"] == 6
    grown = [op for op in w.ops if op.name == "aten.cat" and op.outputs[0] in attention.inputs]
    assert [w.tensors[op.inputs[0]].role for op in grown] == [Role.KV_CACHE] * 2
    assert cache.get_seq_length() == 5  # the user's cache did not grow
    assert len(w.assumptions) == 1
    assert "the key-value cache is copied at every step" in w.assumptions[0]


def test_constants_that_are_no_buffers():
    scale = torch.randn(1000, 100)  # large: has no known values, and stays where it is
    w = capture(Lambda(lambda self, x: x * scale), torch.randn(100))
    assert {t.role for t in w.tensors} >= {Role.CONSTANT, Role.INPUT, Role.OUTPUT}
    assert scale.device.type == "cpu"


def test_views_are_kept_on_request():
    model = Lambda(lambda self, x: x.t().reshape(3, 2).exp())  # the reshape has to copy
    x = torch.randn(3, 2)
    assert [op.kind for op in capture(model, x).ops] == ["copy", "elementwise"]
    kinds = [op.kind for op in capture(model, x, views=True).ops]
    assert kinds.count("view") >= 1
    assert [k for k in kinds if k != "view"] == ["copy", "elementwise"]


def test_source_line_is_the_models_code():
    w = capture(Lambda(lambda self, x: x.exp()), torch.randn(3))
    assert w.ops[0].source.startswith("test_data_flow.py:")
    silent = capture(Lambda(lambda self, x: x.exp()), torch.randn(3), source=False)
    assert silent.ops[0].source == ""


def test_dtype_is_that_of_the_weights():
    model = nn.Linear(4, 4).to(torch.bfloat16)
    w = capture(model, torch.randn(2, 4, dtype=torch.bfloat16))
    assert w.dtype == "bf16"
    assert {t.dtype for t in w.tensors} == {"bf16"}


def test_values_of_small_tensors_decide_as_in_a_real_run():
    def run(self, x, lengths):
        longest = int(lengths.max().item())
        y = x[:, :longest]
        for n in lengths.tolist():
            y = y * n
        keep = lengths > 2
        return y[keep] if bool(keep.any()) else y

    w = capture(Lambda(run), (torch.randn(3, 9), torch.tensor([4, 1, 3])))
    muls = [op for op in w.ops if op.name == "aten.mul"]
    assert shapes(w, tuple(op.outputs[0] for op in muls)) == [(3, 4)] * 3
    assert w.tensors[w.outputs[0]].shape == (2, 4)
    assert w.assumptions == ()


def test_values_of_tensors_made_on_the_models_device_are_known():
    def run(self, x):
        sizes = torch.tensor([2, 3], device=x.device)
        more = x.new_tensor([4], dtype=torch.int64)
        starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0), torch.as_tensor([9]), more])
        assert starts.tolist() == [0, 2, 5, 9, 4]
        assert starts.numpy().sum() == 20
        return x[: int(sizes.prod())]

    w = capture(Lambda(run), torch.empty(8, device="meta"))
    assert w.tensors[w.outputs[0]].shape == (6,)
    assert w.assumptions == ()
