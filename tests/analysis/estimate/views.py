"""Ops with tensors, as the formulas see them."""

from gambrel.ops import OpView, TensorView

WIDTHS = {"fp16": 2, "fp32": 4, "fp8": 1, "int8": 1}


def tensor(*shape, dtype="fp16", storage=0, role="activation"):
    elements = 1
    for size in shape:
        elements = elements * size
    return TensorView(shape=shape, dtype=dtype, elements=elements, storage=storage, role=role)


def matmul(m, n, k, dtype="fp16", weight="", role="weight"):
    return OpView(
        kind="matmul",
        inputs=(
            tensor(m, k, dtype=dtype, storage=1),
            tensor(k, n, dtype=weight or dtype, storage=2, role=role),
        ),
        outputs=(tensor(m, n, dtype=dtype, storage=3),),
        sizes={"m": m, "n": n, "k": k},
        attrs={"compute_dtype": dtype} if weight else {},
    )


def attention(
    batch, heads, kv_heads, q_len, kv_len, head_dim=128, dtype="fp16", cache="", role="kv_cache"
):
    kv = (batch, kv_heads, kv_len, head_dim)
    q = (batch, heads, q_len, head_dim)
    return OpView(
        kind="attention",
        inputs=(
            tensor(*q, dtype=dtype, storage=1),
            tensor(*kv, dtype=cache or dtype, storage=2, role=role),
            tensor(*kv, dtype=cache or dtype, storage=3, role=role),
        ),
        outputs=(tensor(*q, dtype=dtype, storage=4),),
        sizes={
            "batch": batch,
            "heads": heads,
            "kv_heads": kv_heads,
            "q_len": q_len,
            "kv_len": kv_len,
            "head_dim": head_dim,
        },
        attrs={"causal": True},
    )


def elementwise(elements, dtype="fp16"):
    return OpView(
        kind="elementwise",
        inputs=(tensor(elements, dtype=dtype, storage=1),),
        outputs=(tensor(elements, dtype=dtype, storage=2),),
        sizes={"elements": elements},
        attrs={"function": "relu"},
    )


def convolution(batch, channels, side, groups=1):
    image = (batch, channels, side, side)
    return OpView(
        kind="convolution",
        inputs=(
            tensor(*image, storage=1),
            tensor(channels, channels // groups, 3, 3, storage=2, role="weight"),
        ),
        outputs=(tensor(*image, storage=3),),
        sizes={
            "batch": batch,
            "out_channels": channels,
            "in_channels": channels,
            "groups": groups,
            "kernel": (3, 3),
            "spatial": (side, side),
        },
    )


def grouped(tokens, experts=64, top_k=4, n=1024, k=2048):
    rows = tokens * top_k
    return OpView(
        kind="grouped_matmul",
        inputs=(
            tensor(rows, k, storage=1),
            tensor(experts, n, k, storage=2, role="weight"),
        ),
        outputs=(tensor(rows, n, storage=3),),
        sizes={
            "rows": rows,
            "n": n,
            "k": k,
            "experts": experts,
            "top_k": top_k,
            "tokens": tokens,
        },
    )


def collective(function, payload, devices):
    count = max(1, payload // 2)
    return OpView(
        kind="collective",
        inputs=(tensor(count, storage=1),),
        outputs=(tensor(count, storage=2),),
        sizes={"payload_bytes": payload, "devices": devices},
        attrs={"function": function},
    )
