"""Real torch code against hand arithmetic, and against torch's own counter where that is right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from gambrel.capture.aten import TensorArg, is_known  # noqa: E402
from gambrel.capture.aten.views import can_view  # noqa: E402
from gambrel.ops.base import Conventions, Engine  # noqa: E402
from tests.capture.aten.dispatched import Recorder  # noqa: E402

pytestmark = pytest.mark.torch


def meta(*shape: int, dtype=torch.float32, grad: bool = False):
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)


def record(run, conventions: Conventions | None = None) -> Recorder:
    with Recorder(conventions) as recorder:
        run()
    return recorder


def lstm_steps(layer):
    with torch.no_grad():
        layer(torch.zeros(5, 4, 16, device="meta"))


#: What runs, and 2 × its multiply-adds. Every row of the table in the facts on other tools.
MATRIX = {
    # 32 · 128 · 64 = 262,144 multiply-adds.
    "linear": (lambda: F.linear(meta(32, 128), meta(64, 128), meta(64)), 524_288),
    "operator @": (lambda: meta(32, 128) @ meta(128, 64), 524_288),
    "matmul": (lambda: torch.matmul(meta(4, 8, 128), meta(128, 64)), 524_288),
    "bmm": (lambda: torch.bmm(meta(4, 8, 128), meta(4, 128, 64)), 524_288),
    "baddbmm": (
        lambda: torch.baddbmm(meta(4, 8, 64), meta(4, 8, 128), meta(4, 128, 64)),
        524_288,
    ),
    "addmm": (lambda: torch.addmm(meta(64), meta(32, 128), meta(128, 64)), 524_288),
    "einsum": (lambda: torch.einsum("bij,jk->bik", meta(4, 8, 128), meta(128, 64)), 524_288),
    "mv": (lambda: torch.mv(meta(32, 128), meta(128)), 8_192),
    "addmv": (lambda: torch.addmv(meta(32), meta(32, 128), meta(128)), 8_192),
    "dot": (lambda: torch.dot(torch.ones(128), torch.ones(128)), 256),
    "int8": (
        lambda: torch._int_mm(meta(32, 128, dtype=torch.int8), meta(128, 64, dtype=torch.int8)),
        524_288,
    ),
    "grouped": (
        lambda: torch._grouped_mm(
            meta(32, 128, dtype=torch.bfloat16),
            meta(4, 128, 64, dtype=torch.bfloat16),
            offs=meta(4, dtype=torch.int32),
        ),
        524_288,
    ),
    "fp8": (
        lambda: torch._scaled_mm(
            meta(32, 128, dtype=torch.float8_e4m3fn),
            meta(64, 128, dtype=torch.float8_e4m3fn).t(),
            meta(),
            meta(),
            out_dtype=torch.bfloat16,
        ),
        524_288,
    ),
    "int8 weights": (
        lambda: torch._weight_int8pack_mm(
            torch.ones(32, 128, dtype=torch.bfloat16),
            torch.ones(64, 128, dtype=torch.int8),
            torch.ones(64, dtype=torch.bfloat16),
        ),
        524_288,
    ),
    "int4 weights": (
        lambda: torch._weight_int4pack_mm_for_cpu(
            torch.ones(32, 128, dtype=torch.bfloat16),
            torch._convert_weight_to_int4pack_for_cpu(torch.ones(64, 128, dtype=torch.int32), 2),
            32,
            torch.ones(4, 64, 2, dtype=torch.bfloat16),
        ),
        524_288,
    ),
    "conv1d": (lambda: F.conv1d(meta(2, 4, 10), meta(6, 4, 3)), 2 * 2 * 6 * 4 * 3 * 8),
    "conv2d grouped": (
        lambda: F.conv2d(meta(2, 8, 10, 10), meta(8, 2, 3, 3), groups=4),
        2 * 2 * 8 * 2 * 9 * 64,
    ),
    "conv3d": (
        lambda: F.conv3d(meta(1, 2, 5, 5, 5), meta(3, 2, 3, 3, 3)),
        2 * 3 * 2 * 27 * 27,
    ),
    "transposed, grouped": (
        lambda: F.conv_transpose2d(meta(2, 8, 5, 5), meta(8, 3, 2, 2), stride=2, groups=4),
        2 * 2 * 8 * 3 * 4 * 25,
    ),
    # Two products of 2·4 heads, 16 × 16 pairs, 32 wide.
    "attention": (
        lambda: F.scaled_dot_product_attention(*[meta(2, 4, 16, 32)] * 3),
        2 * 2 * 4 * 16 * 16 * (32 + 32),
    ),
    # One query and 4,096 keys.
    "decode attention": (
        lambda: F.scaled_dot_product_attention(
            meta(1, 4, 1, 64), meta(1, 4, 4096, 64), meta(1, 4, 4096, 64)
        ),
        2 * 4 * 4096 * (64 + 64),
    ),
    # Per step: 4 gates of 8, from 16 inputs and 8 states, for 4 sequences; 5 steps.
    "lstm": (lambda: lstm_steps(nn.LSTM(16, 8, device="meta")), 2 * 5 * 4 * 32 * (16 + 8)),
    "gru": (lambda: lstm_steps(nn.GRU(16, 8, device="meta")), 2 * 5 * 4 * 24 * (16 + 8)),
}


@pytest.mark.parametrize("name", MATRIX)
def test_multiply_adds(name):
    run, expected = MATRIX[name]
    recorder = record(run)
    assert recorder.work(Engine.MATRIX) == expected
    assert recorder.unmodelled() == set()


#: The fused CPU kernels take real tensors; other tools count none of them.
CPU = {
    "flash": (
        lambda: F.scaled_dot_product_attention(*[torch.zeros(2, 4, 16, 32)] * 3),
        2 * 2 * 4 * 16 * 16 * 64,
    ),
    # 16 · 17 / 2 = 136 visible pairs a head.
    "flash, causal": (
        lambda: F.scaled_dot_product_attention(*[torch.zeros(2, 4, 16, 32)] * 3, is_causal=True),
        2 * 2 * 4 * 136 * 64,
    ),
    "flash, grouped heads": (
        lambda: F.scaled_dot_product_attention(
            torch.zeros(2, 4, 16, 32),
            torch.zeros(2, 2, 16, 32),
            torch.zeros(2, 2, 16, 32),
            enable_gqa=True,
        ),
        2 * 2 * 4 * 16 * 16 * 64,
    ),
    "lstm": (
        lambda: nn.LSTM(16, 8).requires_grad_(False)(torch.zeros(5, 4, 16)),
        2 * 5 * 4 * 32 * (16 + 8),
    ),
    "a module used three times": (
        lambda: nn.Sequential(*[nn.Linear(16, 16)] * 3)(torch.zeros(4, 16)),
        3 * 2 * 4 * 16 * 16,
    ),
}


@pytest.mark.parametrize("name", CPU)
def test_multiply_adds_on_the_cpu(name):
    run, expected = CPU[name]
    recorder = record(run)
    assert recorder.work(Engine.MATRIX) == expected
    assert recorder.unmodelled() == set()


def test_causal_attention_counts_all_pairs_when_asked():
    run = CPU["flash, causal"][0]
    assert record(run, Conventions(causal="full")).work(Engine.MATRIX) == 2 * 2 * 4 * 256 * 64


VECTOR = {
    "cumsum": (lambda: torch.cumsum(meta(4, 100), -1), 4 * 99),
    "sum": (lambda: meta(4, 100).sum(-1), 4 * 99),
    "max pool": (lambda: F.max_pool2d(meta(1, 2, 8, 8), 2), 2 * 16 * 3),
    "add": (lambda: meta(3, 4) + meta(4), 12),
}


@pytest.mark.parametrize("name", VECTOR)
def test_vector_work(name):
    run, expected = VECTOR[name]
    assert record(run).work(Engine.VECTOR) == expected


#: No matrix work by hand here; what matters is that a formula answers.
MODELLED = {
    "embedding": lambda: F.embedding(meta(5, dtype=torch.int64), meta(10, 4)),
    "scatter": lambda: meta(9).scatter_add(0, meta(3, dtype=torch.int64), meta(3)),
    "cdist": lambda: torch.cdist(meta(8, 3), meta(9, 3)),
    "fft": lambda: torch.fft.rfft(torch.zeros(4, 64)),
    "solve": lambda: torch.linalg.solve(torch.eye(4), torch.ones(4, 2)),
    "cholesky": lambda: torch.linalg.cholesky(torch.eye(4)),
    "topk": lambda: torch.topk(meta(4, 100), 5),
    "sort": lambda: torch.sort(meta(4, 100)),
    "upsample": lambda: F.interpolate(meta(1, 3, 8, 8), scale_factor=2, mode="bilinear"),
    "antialias": lambda: F.interpolate(
        torch.zeros(1, 3, 8, 8), size=4, mode="bicubic", antialias=True
    ),
    "grid sample": lambda: F.grid_sample(meta(1, 3, 8, 8), meta(1, 4, 4, 2), align_corners=False),
    "embedding bag": lambda: F.embedding_bag(
        meta(2, 3, dtype=torch.int64), meta(10, 4), mode="mean"
    ),
    "unfold": lambda: F.unfold(meta(1, 2, 8, 8), 3),
    "fold": lambda: F.fold(meta(1, 18, 36), 8, 3),
    "one hot": lambda: F.one_hot(torch.tensor([1, 2]), 5),
    "bucketize": lambda: torch.bucketize(meta(5), meta(8)),
    "rms norm": lambda: F.rms_norm(meta(2, 8), (8,), meta(8)),
    "pixel shuffle": lambda: F.pixel_shuffle(meta(1, 4, 2, 2), 2),
    "local response": lambda: F.local_response_norm(meta(1, 4, 2, 2), 2),
    "cross entropy": lambda: F.cross_entropy(meta(4, 5), meta(4, dtype=torch.int64)),
}


@pytest.mark.parametrize("name", MODELLED)
def test_has_a_formula(name):
    assert record(MODELLED[name]).unmodelled() == set()


def _step(model, sample, optimizer):
    model(sample).sum().backward()
    optimizer(model.parameters()).step()


def _network(device):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, device=device),
        nn.BatchNorm2d(8, device=device),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8, device=device),
        nn.GroupNorm(2, 8, device=device),
        nn.SiLU(),
        nn.ConvTranspose2d(8, 4, 2, 2, device=device),
        nn.AdaptiveAvgPool2d(3),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(36, 10, device=device),
        nn.GELU(),
        nn.LogSoftmax(-1),
    )


OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, 0.1),
    "adamw, fused": lambda p: torch.optim.AdamW(p, 0.1, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "sgd, fused": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_is_modelled_to_the_last_op(name):
    device = "cpu" if "fused" in name else "meta"
    sample = torch.zeros(2, 3, 32, 32, device=device)
    recorder = record(lambda: _step(_network(device), sample, OPTIMIZERS[name]))
    assert recorder.unmodelled() == set()


def _conv_step(groups: int):
    conv = nn.Conv2d(8, 8, 3, groups=groups, bias=False, device="meta")
    conv(meta(2, 8, 10, 10, grad=True)).sum().backward()


def test_a_depthwise_gradient_is_not_counted_as_a_dense_one():
    # Forward 2·2·8·1·9·64 = 18,432; the gradients of input and weight the same each.
    assert record(lambda: _conv_step(8)).work(Engine.MATRIX) == 3 * 18_432


def _agreeing_network():
    x = meta(2, 3, 32, 32, grad=True)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, device="meta"), nn.Flatten(), nn.Linear(7200, 10, device="meta")
    )
    model(x).sum().backward()


def _agreeing_block():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, device="meta")
    layer(meta(2, 8, 32)).sum().backward()


@pytest.mark.parametrize("run", [_agreeing_network, _agreeing_block, lambda: _conv_step(1)])
def test_agrees_with_torch_where_torch_is_right(run):
    with FlopCounterMode(display=False) as counter:
        run()
    assert record(run).work(Engine.MATRIX) == counter.get_total_flops()


def test_attention_backward_takes_five_products():
    def run():
        q, k, v = (torch.zeros(1, 2, 16, 8, requires_grad=True) for _ in range(3))
        F.scaled_dot_product_attention(q, k, v).sum().backward()

    # Two products forward, five backward, of 2 heads · 256 pairs · 8.
    assert record(run).work(Engine.MATRIX) == (2 + 5) * 2 * 2 * 256 * 8


@given(st.data())
def test_a_reshape_is_a_view_where_torch_says_so(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(sizes))))
    x = torch.empty(sizes, device="meta").permute(order)
    if data.draw(st.booleans()):
        x = x[::2]
    if data.draw(st.booleans()):
        x = x.unsqueeze(1).expand(-1, 3, *x.shape[1:])
    rest, shape = x.numel(), []
    while rest > 1 and data.draw(st.booleans()):
        shape.append(data.draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0])))
        rest //= shape[-1]
    shape = tuple(data.draw(st.permutations([*shape, rest])))
    try:
        x.view(shape)
        fits = True
    except (RuntimeError, ValueError):
        fits = False
    assert can_view(TensorArg(0, tuple(x.shape), "fp32", x.stride()), shape) is fits


def _core_ops() -> set[str]:
    found = set()
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        packet = getattr(torch.ops.aten, base, None) if namespace == "aten" else None
        op = getattr(packet, overload or "default", None) if packet is not None else None
        if op is not None and torch.Tag.core in op.tags:
            found.add(f"aten.{base}")
    return found


def test_all_of_core_aten_is_known():
    core = _core_ops()
    assert len(core) > 150
    assert sorted(op for op in core if not is_known(op)) == []
