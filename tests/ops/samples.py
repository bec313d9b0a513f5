"""One op of every kind (several where variants differ), for laws that hold for all of them."""

from __future__ import annotations

from gambrel.ops import OpView
from tests.ops.builders import op, tensor

X, Y, W = tensor(6, 32, dtype="bf16"), tensor(6, 32, dtype="bf16"), tensor(64, 32, dtype="int4")
INDEX = tensor(6, dtype="int64")
IMAGE, RESULT = tensor(2, 3, 8, 9), tensor(2, 3, 16, 5)
Z = tensor(4, 8, dtype="complex64")

_ATTENTION = {"batch": 2, "heads": 4, "kv_heads": 2, "q_len": 5, "kv_len": 9, "head_dim": 8}
_HEADS = tuple(tensor(2, h, n, 8, dtype="fp16") for h, n in ((4, 5), (4, 9), (4, 9)))
_CONV = {"batch": 2, "out_channels": 8, "in_channels": 4, "groups": 2, "kernel": (3, 5)}
_CONV |= {"spatial": (7, 6)}
_LSTM = {"batch": 2, "seq": 5, "input_size": 7, "hidden": 6, "directions": 2, "layers": 3}
_SCAN = {"batch": 2, "seq": 11, "channels": 6, "state": 4}
_DELTA = {"batch": 2, "seq": 5, "heads": 4, "key_dim": 3, "value_dim": 6}
_SSD = {"batch": 2, "seq": 11, "heads": 4, "head_dim": 6, "state": 5, "groups": 2, "chunk": 4}
_ROWS = {"elements": 192, "rows": 6, "groups": 6, "outputs": 6, "window": 9}
_EXPERTS = {"rows": 6, "n": 16, "k": 32, "experts": 7, "top_k": 2, "tokens": 3}
_GRADIENT = (_HEADS[0], *_HEADS)

_STATED = {"flops": 96, "transcendentals": 8, "traffic_bytes": 1536}

SAMPLES: tuple[OpView, ...] = (
    op("kernel", _STATED, inputs=(X,), outputs=(Y,)),
    op("matmul", {"b": 2, "m": 3, "n": 64, "k": 32}, inputs=(X, W), outputs=(Y,), dequantize=True),
    op("matmul", {"m": 4, "n": 4, "k": 8}, inputs=(Z, Z), outputs=(Z,), bias=True),
    op("grouped_matmul", _EXPERTS, inputs=(X, tensor(7, 32, 16), INDEX), outputs=(Y,), bias=True),
    op("convolution", _CONV, inputs=(IMAGE, W), outputs=(RESULT,), bias=True),
    op("convolution", _CONV, outputs=(RESULT,), bias=True, transposed=True, deformable=True),
    op("convolution_backward", _CONV, inputs=(RESULT, IMAGE, W), outputs=(IMAGE,), grad_bias=True),
    op("attention", _ATTENTION, inputs=_HEADS, outputs=(X,), causal=True, mask=True),
    op("attention", _ATTENTION | {"window": 3}, inputs=_HEADS, causal=True, dropout=True),
    op("attention", _ATTENTION, inputs=_HEADS, causal=True, causal_alignment="upper_left"),
    op("attention", _ATTENTION, inputs=_HEADS, causal=True, causal_pairs="full"),
    op("attention_backward", _ATTENTION, inputs=_GRADIENT, outputs=_HEADS, causal=True),
    op("attention_scores", _ATTENTION, inputs=_HEADS, outputs=(X,), causal=True),
    op("attention_scores_backward", _ATTENTION, inputs=_GRADIENT, outputs=_HEADS, causal=True),
    op("normalization", _ROWS, inputs=(X,), outputs=(Y,), function="layer_norm", affine=True),
    op("normalization", _ROWS, function="rms_norm", affine=True),
    op("normalization", _ROWS, function="batch_norm", statistics=False, running=True),
    op("normalization_backward", _ROWS, inputs=(X, Y), function="layer_norm", affine=True),
    op("normalization_backward", _ROWS, inputs=(X, Y), function="rms_norm", affine=True),
    op("normalization_backward", _ROWS, function="batch_norm", affine=True),
    op("normalization_backward", _ROWS, function="batch_norm", affine=True, statistics=False),
    op("softmax", _ROWS, inputs=(X,), outputs=(Y,), function="log_softmax"),
    op("softmax_backward", _ROWS, inputs=(X,), outputs=(Y,), function="softmax"),
    op("softmax_backward", _ROWS, inputs=(X,), outputs=(Y,), function="log_softmax"),
    op("elementwise", _ROWS, inputs=(X, Y), outputs=(Y,), function="gelu"),
    op("elementwise", _ROWS, inputs=(Z,), outputs=(Z,), function="mul"),
    op("elementwise_backward", _ROWS, inputs=(X, Y), outputs=(Y,), function="silu"),
    op("reduction", _ROWS, inputs=(X,), outputs=(INDEX,), function="logsumexp"),
    op("cumulative", _ROWS, inputs=(X,), outputs=(Y,), function="logcumsumexp"),
    op("sort", _ROWS, inputs=(X,), outputs=(Y, INDEX), function="sort"),
    op("sort", _ROWS | {"k": 5}, inputs=(X,), outputs=(Y, INDEX), function="topk"),
    op("pooling", _ROWS, inputs=(IMAGE,), outputs=(RESULT,), function="avg"),
    op("pooling_backward", _ROWS, inputs=(RESULT,), outputs=(IMAGE,), function="avg"),
    op("cdist", {"batch": 2, "m": 3, "n": 4, "k": 5}, inputs=(X, Y), outputs=(Y,), p=3.0),
    op("cdist", {"batch": 2, "m": 3, "n": 4, "k": 5}, inputs=(X, Y), matmul=True),
    op("interpolation", {"outputs": 480}, inputs=(IMAGE,), outputs=(RESULT,), mode="bicubic"),
    op(
        "interpolation",
        {"outputs": 480},
        inputs=(IMAGE,),
        outputs=(RESULT,),
        mode="bilinear",
        antialias=True,
    ),
    op(
        "interpolation_backward",
        {"outputs": 480},
        inputs=(RESULT,),
        outputs=(IMAGE,),
        mode="bilinear",
        antialias=True,
    ),
    op("copy", inputs=(X,), outputs=(Y,), function="cat"),
    op("fill", {"elements": 192}, inputs=(X,), outputs=(Y,)),
    op("random", {"elements": 192}, inputs=(X,), outputs=(Y,), function="normal"),
    op("gather", {"elements": 60}, inputs=(X, INDEX), outputs=(Y,)),
    op("scatter", {"elements": 60}, inputs=(INDEX, Y, X), outputs=(X,), accumulate=True),
    op("embedding", {"rows": 6, "width": 32, "table_rows": 4}, inputs=(W, INDEX), outputs=(Y,)),
    op("embedding", {"rows": 6, "width": 16}, inputs=(W, INDEX), outputs=(Y,), mode="bag_mean"),
    op("embedding_backward", {"rows": 6, "width": 32}, inputs=(X, INDEX), outputs=(W,)),
    op("selective_scan", _SCAN, inputs=(X, Y), outputs=(Y,), gate=True, softplus=True),
    op("selective_scan_backward", _SCAN, inputs=(X, Y), outputs=(Y,), skip=True),
    op("ssd_scan", _SSD, inputs=(X, Y), outputs=(Y,), skip=True),
    op("ssd_scan", _SSD, inputs=(X, Y), outputs=(Y,), causal_pairs="full"),
    op("ssd_scan_backward", _SSD, inputs=(X, Y), outputs=(Y,)),
    op("delta_scan", _DELTA, inputs=(X, Y), outputs=(Y,)),
    op("wkv7_scan", _DELTA, inputs=(X, Y), outputs=(Y,)),
    op("delta_scan_backward", _DELTA, inputs=(X, Y), outputs=(Y,), rates=False),
    op("recurrent", _LSTM | {"projection": 4}, inputs=(X, W), cell="lstm", bias=True),
    op("recurrent", _LSTM, inputs=(X, W), outputs=(Y,), cell="gru"),
    op("recurrent_backward", _LSTM, inputs=(X, W), outputs=(Y,), cell="lstm", bias=True),
    op("fft", {"length": 12, "transforms": 16}, inputs=(Z,), outputs=(Z,), real=True),
    op("linalg", {"n": 6, "batch": 2, "rhs": 3}, inputs=(X,), outputs=(Y,), function="solve"),
    op("linalg", {"n": 6, "m": 9}, inputs=(X,), outputs=(Y,), function="qr"),
    op("nms", {"boxes": 9}, inputs=(X,), outputs=(INDEX,)),
    op("roi_align", {"outputs": 60, "samples": 4}, inputs=(IMAGE, X), outputs=(RESULT,)),
    op("loss", _ROWS, inputs=(X, INDEX), outputs=(Y,), function="nll"),
    op("loss", _ROWS, inputs=(X, INDEX), outputs=(Y,), function="cross_entropy"),
    op("loss_backward", _ROWS, inputs=(X, INDEX), outputs=(Y,), function="cross_entropy"),
    op("optimizer", _ROWS, inputs=(X, Y), outputs=(X,), function="adamw", weight_decay=True),
    op("collective", {"payload_bytes": 384, "devices": 3}, inputs=(X,), function="all_reduce"),
    op("view", inputs=(X,), outputs=(Y,)),
    op("sync", inputs=(X,)),
)
