"""``torch.autocast``: which ops run in 16 bits, and the casts that this takes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import gambrel
from gambrel.capture.request import Request
from gambrel.capture.resolve import resolve_model
from gambrel.capture.torch import autocast as following
from gambrel.capture.torch import capture
from gambrel.errors import CaptureError, InputError

pytestmark = pytest.mark.torch


class Inside(nn.Module):
    """A model whose own code asks for mixed precision."""

    def __init__(self, body, kind="cuda", dtype=None):
        super().__init__()
        self.body, self.kind, self.dtype = body, kind, dtype

    def forward(self, *args):
        with torch.autocast(self.kind, self.dtype):
            return self.body(*args)


def of(w, name):
    """Formats that ops of a name read, in order."""
    return [[w.tensors[i].dtype for i in op.inputs] for op in w.ops if op.name == name]


def written(w):
    return [w.tensors[op.outputs[0]].dtype for op in w.ops]


# --- against torch itself ---------------------------------------------------------------------


class Log(TorchDispatchMode):
    """What torch dispatches, as (op, formats of the tensors it reads)."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not func.is_view and not str(func).startswith(_NOTHING):
            read = [str(t.dtype) for t in _tensors(args)]
            self.seen.append((str(func.overloadpacket), read))
        return result


#: Ops that neither compute nor move data.
_NOTHING = ("aten.empty", "aten._unsafe_view")


def _tensors(args):
    for a in args:
        if isinstance(a, torch.Tensor):
            yield a
        elif isinstance(a, (list, tuple)):
            yield from _tensors(a)


class Mixed(nn.Module):
    """Something of every class of ops: those in 16 bits, in fp32, in the widest, in either."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.back = nn.ConvTranspose2d(8, 8, 2)
        self.inner = nn.Linear(8, 8)
        self.layer = nn.LayerNorm(8)
        self.slope = nn.PReLU()

    def forward(self, x):
        y = self.slope(self.norm(self.first(x)).relu())
        y = torch.cat(
            [self.back(y).flatten(2).mean(-1), x.mean((1, 2, 3), keepdim=False)[:, None]], 1
        )
        y = self.layer(self.inner(y[:, :8]))
        z = torch.einsum("bi,bj->bij", y, self.inner(y)) @ y[:, :, None]
        with torch.autocast("cpu", enabled=False):
            z = z.float() * 2
        return nn.functional.mse_loss(z[..., 0].softmax(-1).pow(2), y) + y.prod()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_op_of_a_processor_is_cast_as_torch_casts_it(dtype):
    model, x = Mixed().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad(), Log() as log, torch.autocast("cpu", dtype):
        model(x)
    w = capture(Inside(model, "cpu", dtype), x, execute=True)
    names = {"torch.float32": "fp32", str(dtype): {"bfloat16": "bf16"}.get(str(dtype)[6:], "fp16")}
    expected = [(n, [names[r] for r in read]) for n, read in log.seen]
    found = [(op.name, [w.tensors[i].dtype for i in op.inputs]) for op in w.ops]
    assert found == expected


def test_every_rule_is_of_an_op_that_torch_casts_somewhere():
    cast = {
        n.removeprefix("aten::").partition(".")[0]
        for k in ("cuda", "cpu")
        for n in following._cast_on(k)
    }
    assert cast >= following._LOWER | following._WIDEST


# --- the rules of GPUs ------------------------------------------------------------------------

LAYER = nn.Linear(8, 8)


@pytest.mark.parametrize(
    ("function", "name", "read", "result"),
    [
        (lambda x: LAYER(x), "aten.addmm", ["fp16"] * 3, "fp16"),
        (lambda x: x @ x, "aten.mm", ["fp16"] * 2, "fp16"),
        (lambda x: torch.einsum("ij,kj->ik", x, x), "aten.bmm", ["fp16"] * 2, "fp16"),
        (lambda x: x.relu(), "aten.relu", ["fp32"], "fp32"),
        (lambda x: x.half().relu(), "aten.relu", ["fp16"], "fp16"),
        (lambda x: x.half().exp(), "aten.exp", ["fp32"], "fp32"),
        (lambda x: x.half().softmax(-1), "aten._softmax", ["fp16"], "fp32"),
        (lambda x: x.bfloat16().softmax(-1), "aten._softmax", ["fp32"], "fp32"),
        (lambda x: x.half().softmax(-1, torch.float16), "aten._softmax", ["fp16"], "fp16"),
        (lambda x: x.half().sum(-1), "aten.sum", ["fp16"], "fp32"),
        (lambda x: x.half().pow(2), "aten.pow", ["fp32"], "fp32"),
        (
            lambda x: nn.functional.layer_norm(x.half(), (8,)),
            "aten.native_layer_norm",
            ["fp32"],
            "fp32",
        ),
        (lambda x: torch.dot(x[0].half(), x[1]), "aten.dot", ["fp32"] * 2, "fp32"),
        (lambda x: torch.dot(x[0].half(), x[1].half()), "aten.dot", ["fp16"] * 2, "fp16"),
        (lambda x: x.double() @ x.double(), "aten.mm", ["fp64"] * 2, "fp64"),
    ],
)
def test_gpu_rules(function, name, read, result):
    w = capture(Inside(function), torch.randn(8, 8))
    assert of(w, name) == [read]
    assert written(w)[-1] == result


def test_fused_ops_are_cast_too():
    # Rotary embeddings in fp32 would otherwise leave attention in fp32.
    def attend(q):
        return nn.functional.scaled_dot_product_attention(q, q.half(), q)

    w = capture(Inside(attend), torch.randn(1, 2, 4, 8))
    assert of(w, "aten.scaled_dot_product_attention") == [["fp16"] * 3]
    w = capture(Inside(nn.LSTM(8, 8)), torch.randn(3, 1, 8))
    assert set(of(w, "aten.lstm")[0]) == {"fp16"}


def test_attention_layer():
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    w = capture(Inside(lambda x: layer(x, x, x)[0]), torch.randn(1, 4, 8))
    assert {
        f for name in ("aten.mm", "aten.bmm", "aten.addmm") for r in of(w, name) for f in r
    } == {"fp16"}


# --- how often --------------------------------------------------------------------------------


def test_a_weight_is_cast_once_in_a_region_and_an_activation_each_time():
    w = capture(Inside(lambda x: LAYER(x) + LAYER(x)), torch.randn(2, 8))
    assert [op.name for op in w.ops].count("aten._to_copy") == 4  # x twice, weight, bias

    def again(x):
        for _ in range(2):
            with torch.autocast("cuda"):
                x = LAYER(x)
        return x

    w = capture(again, torch.randn(2, 8))
    assert [op.name for op in w.ops].count("aten._to_copy") == 5  # weight and bias in each region


def test_gradients_of_weights_are_cast_back():
    w = capture(Inside(nn.Linear(8, 8)), torch.randn(2, 8), train=True, optimizer="sgd")
    step = [op for op in w.ops if op.kind == "optimizer"]
    assert [{w.tensors[i].dtype for i in op.inputs} for op in step] == [{"fp32"}, {"fp32"}]
    backward = [op for op in w.ops if op.phase == "backward"]
    assert {w.tensors[i].dtype for op in backward if op.kind == "matmul" for i in op.inputs} == {
        "fp16"
    }
    assert sum(op.name == "aten._to_copy" for op in backward) == 2


# --- where it begins and ends -----------------------------------------------------------------


def test_around_the_capture():
    with torch.autocast("cpu", torch.bfloat16):
        w = capture(LAYER, torch.randn(2, 8))
    assert (of(w, "aten.addmm"), w.precisions) == ([["bf16"] * 3], "autocast-bf16")


def test_asked_for_around_forward_and_loss_only():
    class Trained(nn.Linear):
        def forward(self, x):
            return {"loss": super().forward(x).pow(2).sum()}

    given = {"args": torch.randn(2, 8), "train": True}
    w = capture(Trained(8, 8), autocast="bf16", **given)
    inside = capture(Inside(Trained(8, 8), dtype=torch.bfloat16), **given)
    assert [(o.name, o.phase) for o in w.ops] == [(o.name, o.phase) for o in inside.ops]
    with pytest.raises(CaptureError, match="fp16 or bf16, not 'int8'"):
        capture(LAYER, torch.randn(2, 8), autocast="int8")


def test_the_innermost_region_decides_and_the_model_is_told():
    told = []

    def nested(x):
        with torch.autocast("cuda", torch.bfloat16):
            told.append((torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")))
            with torch.autocast("cuda", enabled=False):
                told.append(torch.is_autocast_enabled())
                x = x @ x
            return x @ x

    w = capture(nested, torch.randn(4, 4))
    assert told == [(True, torch.bfloat16), False]
    assert of(w, "aten.mm") == [["fp32"] * 2, ["bf16"] * 2]


def test_as_decorator_and_by_its_older_name():
    @torch.autocast("cpu", torch.bfloat16)
    def product(x):
        return x @ x

    with pytest.warns(FutureWarning):
        older = capture(lambda x: _older(x), torch.randn(4, 4))
    assert of(capture(product, torch.randn(4, 4)), "aten.mm") == of(older, "aten.mm")


def _older(x):
    with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        return x @ x


def test_nothing_is_cast_afterwards_even_when_the_model_fails():
    def failing(x):
        with torch.autocast("cuda"):
            return LAYER(x)[:, :1] @ x

    with pytest.raises(CaptureError):
        capture(failing, torch.randn(2, 8))
    assert LAYER(torch.randn(2, 8)).dtype == torch.float32
    assert not torch.is_autocast_enabled("ipu")
    w = capture(LAYER, torch.randn(2, 8))
    assert (of(w, "aten.addmm"), w.precisions) == ([["fp32"] * 3], "")
    with torch.autocast("cpu", torch.bfloat16):
        assert LAYER(torch.randn(2, 8)).dtype == torch.bfloat16


# --- as a user asks ---------------------------------------------------------------------------


def test_casts_cost_host_time_and_the_report_names_the_formats():
    class Deep(nn.Sequential):
        pass

    model = Deep(*(nn.Linear(64, 64) for _ in range(8)))
    asked = {"inputs": torch.randn(4, 64), "runtime": "pytorch"}
    mixed = gambrel.analyze(model, "a100", autocast="fp16", **asked)
    half = gambrel.analyze(
        model.half(), "a100", precision="fp16", **asked | {"inputs": asked["inputs"].half()}
    )
    assert (
        mixed.total.expected_time_s.value > 2 * half.total.expected_time_s.value
    )  # 25 launches, not 8
    assert mixed.model.precision == "autocast-fp16"


@pytest.mark.parametrize(
    ("model", "asked", "message"),
    [
        ("stable-diffusion-xl", {"autocast": "fp16"}, "is neither code of PyTorch nor a built-in"),
        ("matmul:m=8,n=8,k=8,bf16", {"autocast": "bf16"}, "--precision bf16"),
        ("matmul:m=8,n=8,k=8,bf16", {"train": True}, "is an inference workload"),
    ],
)
def test_what_would_be_ignored_is_refused(model, asked, message):
    with pytest.raises(CaptureError, match=message):
        resolve_model(model, Request(**asked))


def test_two_ways_to_choose_formats_are_refused():
    with pytest.raises(InputError, match="leave --precision fp16 out"):
        resolve_model("timm/resnet18", Request(autocast="bf16", precision="fp16"))
