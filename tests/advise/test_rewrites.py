"""Changes that rewrite the model, by hand on toys, and as laws over the zoo."""

import msgspec
import pytest

from gambrel import load_model
from gambrel.advise.attention import fused_attention
from gambrel.advise.layout import channels_last
from gambrel.advise.prune import prunable, pruned
from gambrel.advise.recommend import advise
from gambrel.advise.whatif import with_change
from gambrel.analysis.analyze import analyze
from gambrel.analysis.settings import Settings
from gambrel.capture import zoo
from gambrel.device.catalog import list_devices
from gambrel.errors import InputError
from gambrel.report import render
from gambrel.workload import Op, Role, Tensor, Workload
from tests.analysis.small import device, perceptron

DEVICES = {d.id: d for d in list_devices()}


def model(tensors, ops, outputs, name="toy"):
    """A workload in fp16; tensors as (shape, role), each with a storage of its own."""
    return Workload(
        name=name,
        dtype="fp16",
        tensors=tuple(
            Tensor(shape=shape, dtype="fp16", storage=i, role=role)
            for i, (shape, role) in enumerate(tensors)
        ),
        ops=tuple(ops),
        outputs=outputs,
    )


def measured(workload, **settings):
    return analyze(workload, device(), Settings(precision="fp16", **settings))


IN, OUT, ACT, W = Role.INPUT, Role.OUTPUT, Role.ACTIVATION, Role.WEIGHT
HEADS = (2, 3, 5, 4)  # batch, heads, tokens, width
SCORES = (2, 3, 5, 5)


def attention(outputs=(7,), copies=False):
    """softmax(q·kᵀ + mask)·v, each tensor of 120 values (scores and mask: 150)."""
    tensors = [
        (HEADS, IN), (HEADS, IN), (HEADS, IN), (SCORES, IN),
        (SCORES, ACT), (SCORES, ACT), (SCORES, ACT), (HEADS, OUT), (HEADS, ACT),
    ]  # fmt: skip
    key = 8 if copies else 1
    ops = [
        Op(kind="matmul", inputs=(0, key), outputs=(4,), sizes={"b": 6, "m": 5, "n": 5, "k": 4}),
        Op(kind="elementwise", inputs=(4, 3), outputs=(5,), sizes={"elements": 150},
           attrs={"function": "add"}),
        Op(kind="softmax", inputs=(5,), outputs=(6,), sizes={"elements": 150, "rows": 30}),
        Op(kind="matmul", inputs=(6, 2), outputs=(7,), sizes={"b": 6, "m": 5, "n": 4, "k": 5}),
    ]  # fmt: skip
    clone = Op(kind="copy", inputs=(1,), outputs=(8,), attrs={"function": "clone"})
    return model(tensors, [clone, *ops] if copies else ops, outputs)


@pytest.mark.parametrize("copies", [False, True])
def test_attention_becomes_one_op(copies):
    before, after = attention(copies=copies), fused_attention(attention(copies=copies))
    assert [op.kind for op in after.ops] == ["attention"]
    was, then = measured(before), measured(after)
    # Two products of 2·6·5·5·4 FLOP each.
    assert was.total.matrix_flops == then.total.matrix_flops == 2 * (2 * 6 * 5 * 5 * 4)
    # q, k, v and the mask are read and the result is written; no scores, no copy of the keys.
    assert then.traffic_bytes == 2 * (4 * 120 + 150)
    extra = 4 * 120 if copies else 0
    assert was.traffic_bytes == then.traffic_bytes + 2 * 6 * 150 + extra


def test_scores_that_are_returned_must_be_formed():
    with pytest.raises(InputError, match="spells out no attention"):
        fused_attention(attention(outputs=(7, 6)))


def test_a_product_with_a_weight_is_no_attention():
    found = attention()
    tensors = list(found.tensors)
    tensors[2] = msgspec.structs.replace(tensors[2], role=W)
    with pytest.raises(InputError, match="spells out no attention"):
        fused_attention(msgspec.structs.replace(found, tensors=tuple(tensors)))


def test_attention_of_swin_keeps_its_work():
    before, after = zoo.load("swin-t"), fused_attention(zoo.load("swin-t"))
    was, then = (analyze(w, DEVICES["a100-sxm4-80gb"]) for w in (before, after))
    assert sum(op.kind == "attention" for op in after.ops) == 12  # 2 + 2 + 6 + 2 blocks
    assert then.total.matrix_flops == was.total.matrix_flops
    assert then.traffic_bytes < was.traffic_bytes


def convolution_then_rows(function="clone"):
    """A 1×1 convolution over 2×2 pixels, a copy, and a product over pixels as rows."""
    tensors = [
        ((1, 8, 2, 2), IN), ((8, 8, 1, 1), W), ((1, 8, 2, 2), ACT),
        ((1, 8, 2, 2), ACT), ((8, 3), W), ((4, 3), OUT),
    ]  # fmt: skip
    sizes = {"batch": 1, "out_channels": 8, "in_channels": 8, "kernel": (1, 1), "spatial": (2, 2)}
    ops = [
        Op(kind="convolution", inputs=(0, 1), outputs=(2,), sizes=sizes),
        Op(kind="copy", inputs=(2,), outputs=(3,), attrs={"function": function}),
        Op(kind="matmul", inputs=(3, 4), outputs=(5,), sizes={"m": 4, "n": 3, "k": 8}),
    ]
    return model(tensors, ops, (5,))


def test_channels_last_drops_the_copy():
    was, then = (
        measured(w) for w in (convolution_then_rows(), channels_last(convolution_then_rows()))
    )
    assert was.traffic_bytes - then.traffic_bytes == 2 * 2 * 32  # 32 values read and written
    assert was.flops == then.flops


def test_other_copies_stay():
    for kept in (convolution_then_rows("roll"), perceptron()):
        with pytest.raises(InputError, match="no convolutions of images"):
            channels_last(kept)


def test_channels_last_is_done_once():
    done = channels_last(zoo.load("resnet18"))
    assert all(op.attrs["channels_last"] for op in done.ops if op.kind == "convolution")
    with pytest.raises(InputError, match="channels first"):
        channels_last(done)


def test_a_model_that_keeps_channels_last_needs_no_such_advice():
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 8, 1))
        image = torch.empty(1, 3, 16, 16)
    last = model.to(memory_format=torch.channels_last)
    found = load_model(last, inputs=image.to(memory_format=torch.channels_last))
    assert found.ops[0].attrs["channels_last"]
    with pytest.raises(InputError, match="channels first"):
        channels_last(found)


def test_channels_last_saves_the_passes_of_the_library():
    """timm: 4,218 images/s with channels first and 5,088 with channels last (RTX 4090, AMP)."""
    asked = Settings(runtime="pytorch", precision="fp16", sizes={"batch": 512})
    first = analyze(zoo.load("resnet50"), DEVICES["rtx-4090"], asked)
    last = with_change(first, ["channels-last"])
    assert (last.flops, last.roofline_time_s) == (first.flops, first.roofline_time_s)
    gain = first.expected_time_s.value / last.expected_time_s.value
    assert gain == pytest.approx(5088.39 / 4217.6, rel=0.08)


def test_channels_last_is_advice_where_the_library_turns_images():
    def advised(runtime, device="rtx-4090"):
        asked = Settings(runtime=runtime, precision="fp16", sizes={"batch": 64})
        found = advise(analyze(zoo.load("resnet50"), DEVICES[device], asked))
        return {r.change for r in found.recommendations}

    assert "channels-last" in advised("pytorch")
    assert "channels-last" not in advised("tensorrt")


def hidden(width):
    """x[1, 4] · w1[4, width] + b → relu → · w2[width, 2]."""
    tensors = [
        ((1, 4), IN), ((4, width), W), ((width,), W), ((1, width), ACT), ((1, width), ACT),
        ((width, 2), W), ((1, 2), OUT),
    ]  # fmt: skip
    ops = [
        Op(kind="matmul", inputs=(0, 1, 2), outputs=(3,), attrs={"bias": True},
           sizes={"m": 1, "n": width, "k": 4}),
        Op(kind="elementwise", inputs=(3,), outputs=(4,), sizes={"elements": width},
           attrs={"function": "relu"}),
        Op(kind="matmul", inputs=(4, 5), outputs=(6,), sizes={"m": 1, "n": 2, "k": width}),
    ]  # fmt: skip
    return model(tensors, ops, (6,))


def test_pruning_a_hidden_layer_is_the_narrower_model():
    assert pruned(hidden(32), 0.5) == hidden(16)
    assert pruned(hidden(32), 0.3) == hidden(24)  # 22.4, to the next multiple of 8
    assert measured(pruned(hidden(32), 0.5)).flops == 2 * (4 * 16 + 16 * 2)


def test_channels_that_others_see_stay():
    with pytest.raises(InputError, match="no inner channels"):
        pruned(hidden(8), 0.5)  # fewer than 8 are not left
    returned = msgspec.structs.replace(hidden(32), outputs=(4, 6))
    with pytest.raises(InputError, match="no inner channels"):
        pruned(returned, 0.5)
    assert not prunable(returned)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 2.0, float("nan")])
def test_a_share_is_between_none_and_all(share):
    with pytest.raises(InputError, match="between 0 and 1"):
        pruned(hidden(32), share)


@pytest.mark.parametrize("name", ["resnet50", "mobilenet-v2", "vgg16", "bert-base", "yolov8n"])
def test_pruning_the_zoo(name):
    whole = zoo.load(name)
    on = DEVICES["a100-sxm4-80gb"]
    before, after, less = (analyze(w, on) for w in (whole, pruned(whole, 0.3), pruned(whole, 0.6)))
    assert less.flops < after.flops < before.flops
    assert less.model.parameters < after.model.parameters < before.model.parameters
    assert after.traffic_bytes < before.traffic_bytes
    # At most the square of what stays, as both sides of a product shrink.
    assert after.flops > 0.45 * before.flops
    assert len(after.ops) == len(before.ops)
    assert after.coverage == before.coverage


def test_pruning_bert_narrows_its_feed_forward():
    after = pruned(zoo.load("bert-base"), 0.25)
    wide = {t.shape for t in after.tensors if t.role == "weight"}
    assert (3072,) not in wide
    assert (2304,) in wide  # 3072 · 3/4
    assert (768,) in wide


def test_another_model_of_the_line():
    big = analyze(zoo.load("yolov8s"), DEVICES["l4"], Settings(sizes={"batch": 4}))
    small = with_change(big, ["model=yolov8n"])
    assert small == with_change(analyze(zoo.load("yolov8n"), DEVICES["l4"]), ["batch=4"])
    with pytest.raises(InputError, match="no phase 'decode'"):
        with_change(analyze(zoo.load("llama-3.2-1b-decode"), DEVICES["l4"]), ["model=resnet50"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("attention", "spells out no attention"),
        ("prune=lots", "write a share"),
        ("prune=0", "between 0 and 1"),
        ("prune=120%", "between 0 and 1"),
        ("batch=0", "at least 1"),
        ("model=nothing-like-it", "unknown model"),
        ("weights=fp64", "wider than fp64"),
        ("sparsity", "no peak with sparsity"),
    ],
)
def test_what_does_not_apply_is_one_sentence(change, message):
    found = analyze(zoo.load("resnet18"), DEVICES["t4"])
    with pytest.raises(Exception, match=message) as caught:
        with_change(found, [change])
    assert "\n" not in str(caught.value)


def test_the_share_of_launches_is_told():
    found = analyze(zoo.load("resnet50"), DEVICES["a100-sxm4-80gb"])
    hint = advise(found).hints[-1]
    assert f"{found.launches:,} kernels, one every" in hint
    assert "graphs" in render(advise(found))
    busy = analyze(zoo.load("vgg16"), DEVICES["a100-sxm4-80gb"], Settings(sizes={"batch": 64}))
    assert not any("Launch overhead" in hint for hint in advise(busy).hints)


def test_a_replacement_is_listed_alone_and_once():
    found = advise(analyze(zoo.load("yolov8s"), DEVICES["jetson-orin-nano-8gb"])).recommendations
    replaced = [r for r in found if "model=" in r.change or "hardware=" in r.change]
    assert [r.change for r in replaced] == ["model=yolov8n"]
