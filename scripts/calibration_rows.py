"""How the rows of each file of measurements become arguments of a formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibration_replay import REPLAYED, START, as_read, hosted
from calibration_routing import HEIGHTS, routed
from calibration_table import DEVICES, Form, Formats, Rows, bandwidth, load, machine, peaks
from gambrel.analysis.estimate import attention_forms, expert_forms, forms

__all__ = ["DEVICES", "FORMS", "Form", "Formats", "Rows", "load"]

# --- GEMM -----------------------------------------------------------------------------------

_ENGINE = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8",
    "int4_wo": "bf16",
    "int8_wo": "bf16",
    "sq": "int8",
    "nvfp4": "nvfp4",
}
_WEIGHT = {
    "bfloat16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "int4_wo": 0.5,
    "int8_wo": 1.0,
    "sq": 1.0,
    "nvfp4": 0.5625,
}
_ACTIVATION = {"fp8": 1.0, "fp8_block": 1.0, "sq": 1.0, "nvfp4": 0.5625}


def _gemm(c: dict[str, Any]) -> dict[str, Any]:
    label = c["gemm_dtype"]
    peak = peaks(c["device"], [_ENGINE[x] for x in label])
    weights = np.array([_WEIGHT[x] for x in label])
    inputs = np.array([_ACTIVATION.get(x, 2.0) for x in label])
    m, n, k = c["m"], c["n"], c["k"]
    traffic = weights * n * k + inputs * m * k + 2 * m * n
    bound = np.maximum(2 * m * n * k / peak, traffic / bandwidth(c["device"]))
    quantized = np.where(np.isin(label, ["fp8", "fp8_block", "sq", "nvfp4"]), m * k * 2, 0.0)
    # On Blackwell these take a median of 231 µs where the others take 8 to 20: the host's time.
    vllm = np.char.startswith(c["framework"].astype(str), "vllm")
    host = vllm & (label == "fp8_block") & (c["device"] == "b200-hgx-180gb")
    return {
        "label": label,
        "peak": peak,
        "traffic": traffic,
        "bound": bound,
        "arithmetic": 2 * m * n * k / peak,
        "weights": weights * n * k,
        "working": traffic + (START["replay_copies"] - 1) * weights * n * k,
        "quantized": quantized,
        "usable": (c["us"] > 0) & ~host,
    }


def _gemm_seconds(c: dict[str, float], device: Any, r: Rows) -> Any:
    traffic, quantized = _gemm_replayed(c, device[1].cache_bytes, r)
    seconds = forms.launch(c, device[1]) + forms.matmul(
        c,
        device[1],
        r["peak"],
        m=r["m"],
        n=r["n"],
        k=r["k"],
        traffic_bytes=traffic,
        quantized_bytes=quantized,
    )
    return np.maximum(seconds, hosted(c, r["m"], r["n"], r["k"]))


def _gemm_replayed(c: dict[str, float], cache: float, r: Rows) -> tuple[Any, Any]:
    """Bytes of the product and of quantising, as memory would have to deliver them.

    Copies of the weights take turns; the activations are the same at each turn.
    """
    inner = r["traffic"] - r["weights"]
    activations = inner + r["quantized"]
    rotated = c.get("replay_copies", 1.0) * r["weights"] + activations
    same = r["weights"] + activations
    weights = as_read(c, cache, r["weights"], rotated)
    return weights + as_read(c, cache, inner, same), as_read(c, cache, r["quantized"], same)


# --- attention ------------------------------------------------------------------------------


def _attention_common(c: dict[str, Any], queries: Any, keys: Any) -> dict[str, Any]:
    from gambrel.ops.attention import _cut_triangle

    window = np.where(c["window_size"] > 0, np.minimum(c["window_size"], keys), keys)
    pairs = _cut_triangle(keys, window) - _cut_triangle(keys - queries, window)
    heads = c["batch_size"] * c["num_heads"]
    dtype = np.where(c["attn_dtype"] == "fp8", "fp8", "bf16")
    kv_width = np.where(c["kv_cache_dtype"] == "fp8", 1.0, 2.0)
    kv_bytes = 2 * c["head_dim"] * kv_width
    seen = np.minimum(keys, queries + window - 1)
    traffic = 2 * heads * queries * c["head_dim"] * 2.0
    traffic = traffic + c["batch_size"] * c["num_key_value_heads"] * seen * kv_bytes
    peak = peaks(c["device"], dtype)
    pairs = pairs * heads
    bound = np.maximum(4 * pairs * c["head_dim"] / peak, traffic / bandwidth(c["device"]))
    narrow = (c["attn_dtype"] != "fp8") & (c["kv_cache_dtype"] == "fp8")
    return {
        "label": np.where(narrow, "bfloat16_kv8", c["attn_dtype"]),
        "peak": peak,
        "pairs": pairs,
        "longest": window,
        "seen": seen,
        "kv_bytes": kv_bytes,
        "traffic": traffic,
        "working": traffic,
        "bound": bound,
        "arithmetic": 4 * pairs * c["head_dim"] / peak,
    }


def _flash(c: dict[str, Any]) -> Any:
    """Not the fallback kernels: Triton attention, and heads wider than flash attention takes."""
    triton = np.char.find(c["kernel_source"].astype(str), "triton") >= 0
    return ~triton & (c["head_dim"] <= 256)


def _context(c: dict[str, Any]) -> dict[str, Any]:
    found = _attention_common(c, c["isl"], c["isl"])
    return {**found, "usable": _flash(c)}


def _context_seconds(c: dict[str, float], device: Any, r: Rows) -> Any:
    share = _attention_read(c, device[1].cache_bytes, r)
    return forms.launch(c, device[1]) + attention_forms.attention(
        c,
        device[1],
        r["peak"],
        pairs=r["pairs"],
        queries=r["isl"],
        longest=r["longest"],
        heads=r["num_heads"],
        kv_heads=r["num_key_value_heads"],
        batch=r["batch_size"],
        head_dim=r["head_dim"],
        traffic_bytes=r["traffic"] * share,
        kv_bytes=r["batch_size"] * r["num_key_value_heads"] * r["isl"] * r["kv_bytes"] * share,
    )


def _attention_read(c: dict[str, float], cache: float, r: Rows) -> Any:
    """Bytes that memory would have to deliver, of each one: all buffers are the same every time."""
    return as_read(c, cache, 1.0, r["traffic"] * c.get("replay_copies", 1.0))


def _decode(c: dict[str, Any]) -> dict[str, Any]:
    length = c["isl"] + c["step"]
    found = _attention_common(c, np.ones_like(length), length)
    trtllm = np.char.startswith(c["framework"].astype(str), "trtllm")
    group = c["num_heads"] / c["num_key_value_heads"]
    faster = (found["bound"] * 0.97 > c["seconds"]) & (c["device"] != "l40s")
    # TensorRT-LLM falls back to a kernel 10 times slower above 32 query heads a key/value head.
    fallback = trtllm & (group > 32)
    return {
        **found,
        "label": np.where(c["kv_cache_dtype"] == "fp8", "kv8", "bfloat16"),
        "usable": _flash(c) & ~faster & ~fallback,
        "windowed": c["window_size"] > 0,
    }


def _decode_seconds(c: dict[str, float], device: Any, r: Rows) -> Any:
    share = _attention_read(c, device[1].cache_bytes, r)
    return forms.launch(c, device[1]) + attention_forms.decode_attention(
        c,
        device[1],
        batch=r["batch_size"],
        heads=r["num_heads"],
        kv_heads=r["num_key_value_heads"],
        head_dim=r["head_dim"],
        keys=r["seen"],
        kv_bytes=r["kv_bytes"] * share,
        windowed=r["windowed"],
        cut=r["seen"] < r["isl"] + r["step"],
    )


#: Width of a cached token (512 latent, 64 rotated) and of the values among them.
_LATENT, _LATENT_VALUE = 576, 512


def _latent(c: dict[str, Any]) -> dict[str, Any]:
    keys = c["isl"] + c["step"]
    width = np.where(c["kv_cache_dtype"] == "fp8", 1.0, 2.0)
    token = _LATENT * width
    peak = peaks(c["device"], ["bf16"] * len(keys))
    # vLLM's take 100 to 300 µs at least where the others take 10: the time of the host.
    host = np.char.startswith(c["framework"].astype(str), "vllm")
    traffic = c["batch_size"] * keys * token
    return {
        "label": np.where(c["kv_cache_dtype"] == "fp8", "kv8", "bfloat16"),
        "peak": peak,
        "bound": traffic / bandwidth(c["device"]),
        "arithmetic": np.zeros(len(keys)),
        "traffic": traffic,
        "working": traffic,
        "token": token,
        "keys": keys,
        "usable": (c["us"] > 0) & ~host,
    }


def _latent_seconds(c: dict[str, float], device: Any, r: Rows) -> Any:
    return forms.launch(c, device[1]) + attention_forms.latent_decode(
        c,
        device[1],
        r["peak"],
        batch=r["batch_size"],
        heads=r["num_heads"],
        keys=r["keys"],
        widths=_LATENT + _LATENT_VALUE,
        token_bytes=r["token"] * _attention_read(c, device[1].cache_bytes, r),
    )


def _prompt_kernel(stack: str, device: str, formats: Formats) -> dict[str, float]:
    """TensorRT-LLM gives each query head of a prompt tiles of its own.

    Ada's on-chip memory (100 KB a unit) holds tiles of 64 rows of heads wider than 128. In 16 bits
    TensorRT-LLM's take as long there for heads of 192 as for heads of 256.
    """
    small = {"wide_rows": 64.0} if device == "l40s" else {}
    if stack == "trtllm" and device == "l40s" and "fp8" not in formats.names:
        small["padded_head"] = 256.0
    return {"packed": 0.0 if stack == "trtllm" else 1.0, **_cold(device), **small}


def _latent_kernel(stack: str, device: str, _formats: Formats) -> dict[str, float]:
    """Before Hopper TensorRT-LLM splits no keys; SGLang runs Triton, which gives 16 heads a tile
    and cuts the keys of each into 8 pieces however few they are."""
    if stack == "trtllm" and device in ("l40s", "a100-sxm4-80gb"):
        return {"splits": 1.0}
    return {"splits": 8.0, "tile_heads": 16.0} if (stack, device) == ("sglang", "l40s") else {}


def _cold(device: str) -> dict[str, float]:
    """What stays in the cache is told from the kernel where rows are held against replays."""
    return {"warm": 0.0} if device in REPLAYED else {}


def _decode_kernel(stack: str, device: str, formats: Formats) -> dict[str, float]:
    """What is known of the decoding kernels of a stack, beyond measurements.

    FlashAttention-2, which vLLM takes before Hopper with a 16-bit cache, splits no keys where heads
    have keys of their own and packs no heads with a window (nor does an average over stacks, whose
    rows with windows are nearly all vLLM's). TensorRT-LLM has a kernel of its own for such heads;
    its other kernel splits no keys with an 8-bit cache on Ada.
    """
    old = device != "h100-sxm5-80gb" and "bf16" in formats.names
    own = {} if stack == "trtllm" else {"lone_launch": 0.0, "lone_memory": 1.0}
    whole = stack == "trtllm" and device == "l40s" and "fp8" in formats.names
    return {
        **own,
        **_cold(device),
        "split_lone": 0.0 if old and stack == "vllm" else 1.0,
        "split_shared": 0.0 if whole else 1.0,
        "pack_window": 0.0 if old and stack in ("any", "vllm") else 1.0,
    }


def _dispatch(stack: str, device: str, formats: Formats) -> dict[str, float]:
    """Fp8 products of vLLM and SGLang, and 4-bit ones of all: CUTLASS kernels.

    They never split the sum: rows of 65,536 products take as long on one unit as on all (but for
    SGLang's in fp8 on Hopper and Blackwell, whose split is fitted, as its served runs are closer
    with it). Those in fp8 for Hopper and Ada are dispatched on the rows; TensorRT-LLM's in 4 bits
    have one tile. SGLang's for Ada walk down all rows first and read them again; vLLM's turn back
    before the L2 is full. Products with weights of fewer bits, and those of cuBLAS on Ada (but
    for those that TensorRT-LLM chooses by timing), have tiles for few rows: held-out errors fall
    with them, on HBM they rise.
    """
    found = {"by_rows": 0.0, "reread": 0.0}
    narrow = {"int8", "int8_weight", "int4_weight"} & set(formats.names)
    if narrow or (device == "l40s" and "bf16" in formats.names and stack != "trtllm"):
        found["thin"] = 1.0
    if stack in ("vllm", "sglang") and "fp8" in formats.names:
        rows = {"h100-sxm5-80gb": 1.0, "l40s": 2.0}
        found["by_rows"] = rows.get(device, 0.0)
        if stack == "vllm" or device == "l40s":
            found["k_split"] = 1e9
        if (stack, device) == ("sglang", "l40s"):
            del found["reread"]
    if stack != "any" and "nvfp4" in formats.names:
        found |= {"by_rows": 3.0 if stack == "trtllm" else 0.0, "k_split": 1e9}
    return found


# --- mixture of experts ---------------------------------------------------------------------

_MOE_WEIGHT = {
    "bfloat16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "int4_wo": 0.53,
    "w4a16_mxfp4": 0.53,
    "nvfp4": 0.5625,
    "w4a8_mxfp4_mxfp8": 0.53,
}
_MOE_ENGINE = {"fp8": "fp8", "fp8_block": "fp8", "nvfp4": "nvfp4", "w4a8_mxfp4_mxfp8": "fp8"}


def _moe(c: dict[str, Any]) -> dict[str, Any]:
    label = c["moe_dtype"]
    # Nemotron experts have no gate: two matrices instead of three. These were run with one all the
    # same: the collections on the A100, and Triton kernels with an fp8 scale a tensor.
    gateless = (c["topk"] == 22) | (c["hidden_size"] == 2688)
    gated = np.isin(c["framework"], ["vllm/0.14.0", "sglang/0.5.10"])
    gated |= c["kernel_source"] == "vllm_modeloptfp8moe_triton_tritonexperts"
    inter = c["inter_size"] / c["moe_tp_size"]
    width = np.array([_MOE_WEIGHT[x] for x in label])
    gate = np.where(gateless & ~gated, 1.0, 2.0)
    load = routed(c)
    rows = np.maximum(load["rows"], 1e-3)
    touched = np.minimum(np.maximum(load["touched"], np.minimum(1.0, rows)), rows)
    elsewhere, foreign = _foreign(c, load)
    weight_bytes = touched * (gate + 1) * inter * c["hidden_size"] * width
    return {
        "label": label,
        "gate": gate,
        "peak": peaks(c["device"], [_MOE_ENGINE.get(x, "bf16") for x in label]),
        "few": c["num_tokens"] <= np.maximum(1.0, c["num_experts"] / c["moe_ep_size"]),
        "inter": inter,
        "width": width,
        "bound": np.zeros(len(label)),
        # SGLang runs 22 of 512 experts on a path that takes 2.3 times as long as its usual one.
        "usable": c["kernel_source"] != "sglang_flashinfer_cutlass_moe",
        "rows": rows + foreign,
        "touched": touched,
        "elsewhere": elsewhere,
        # One run follows another over the same weights: those that fill half the cache stay there.
        "warm": np.clip(2 - 2 * weight_bytes / _caches(c["device"]), 0.0, 1.0),
        **{
            f"tiles_{h}": np.maximum(load[f"tiles_{h}"], np.minimum(rows, 1.0)) + foreign / h
            for h in HEIGHTS
        },
    }


def _foreign(c: dict[str, Any], load: dict[str, Any]) -> tuple[Any, Any]:
    """Rows of other devices that are passed over, and those that are computed all the same.

    Where experts are shared, the collector gave SGLang the places of other devices' rows as rows of
    the first expert: in version 0.5.10, and later with eight experts.
    """
    places = c["num_tokens"] * c["topk"]
    sglang = np.char.startswith(c["framework"].astype(str), "sglang") & (c["moe_ep_size"] > 1)
    taken = sglang & ((c["framework"] == "sglang/0.5.10") | (c["num_experts"] == 8))
    foreign = np.where(taken, np.maximum(load["arriving"] * c["topk"] - load["rows"], 0.0), 0.0)
    return np.where(taken, 0.0, np.maximum(places - load["rows"], 0.0)), foreign


def _caches(devices: Any) -> Any:
    return np.array([machine(d)[1].cache_bytes for d in devices])


#: On Blackwell kernels of TensorRT-LLM serve 16 bits, but for tokens that are sent to few experts:
#: SGLang takes Triton there (up to four), and vLLM's attain half as much (one or two).
_LONE_TOP_K = {"sglang": 4.0, "vllm": 2.0}


def _moe_kernel(stack: str, device: str, formats: Formats) -> dict[str, float]:
    """Triton kernels take their tile by the tokens; CUTLASS ones (all of TensorRT-LLM, vLLM's in
    fp8 on Hopper) are tuned. An average over stacks is between both."""
    cutlass = device == "h100-sxm5-80gb" and formats.names[0] in ("fp8", "fp8_block")
    if (device, formats.names[0]) == ("b200-hgx-180gb", "bf16") and stack in _LONE_TOP_K:
        return {"by_tokens": 1.0, "lone_top_k": _LONE_TOP_K[stack]}
    triton = stack == "sglang" or (stack == "vllm" and not cutlass)
    return {"by_tokens": 1.0} if triton else {"by_tokens": 0.0, "align": 0.0}


def _moe_seconds(c: dict[str, float], device: Any, r: Rows) -> Any:
    """Two grouped products: gate and up together, and down."""
    total = 0.0
    for n, k in ((r["inter"] * r["gate"], r["hidden_size"]), (r["hidden_size"], r["inter"])):
        total = total + expert_forms.grouped_matmul(
            c,
            device[1],
            r["peak"],
            rows=r["rows"],
            touched=r["touched"],
            n=n,
            k=k,
            width=r["width"],
            few=r["few"],
            top_k=r["topk"],
            spread_bytes=r["elsewhere"] * n * 4,
            warm=r["warm"],
            row_tiles=lambda height: r[f"tiles_{height}"],
        )
    return 2 * forms.launch(c, device[1]) + total


# --- collectives ----------------------------------------------------------------------------

_COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def _nccl(c: dict[str, Any]) -> dict[str, Any]:
    payload = c["message_size"] * np.where(c["nccl_dtype"] == "half", 2.0, 1.0)
    d = c["num_gpus"]
    twice = np.where(c["op_name"] == "all_reduce", 2.0, 1.0)
    link = []
    for name in c["device"]:
        links = {x.name: x.byte_per_s_per_direction for x in machine(name)[0].links}
        link.append(links.get("nvlink") or links["pcie"])
    return {
        "label": np.array(
            [f"{_COLLECTIVES[o]}-{n:.0f}" for o, n in zip(c["op_name"], d, strict=True)]
        ),
        "sent": twice * payload * (d - 1) / d,
        "link": np.array(link),
        "bound": np.zeros(len(d)),
        "usable": c["us"] > 0,
    }


def _nccl_seconds(c: dict[str, float], _device: Any, r: Rows) -> Any:
    link = float(r["link"][0])  # the rows are those of one device
    return forms.collective(c, link, link_bytes=r["sent"], devices=r["num_gpus"])


#: Nothing is quantised on the way; or activations are, in a kernel of its own.
_STATIC = {"quantize": 0.0, "row": 0.0, "settle": 2e-3}
_DYNAMIC = {"launch": 9000.0}
#: Kernels that alternate with quantisation let the chip cool; the clock falls later.
_LATER = {"settle": 8e-3}

FORMS = (
    Form(
        name="matmul",
        file="gemm.csv",
        key=("n", "k"),
        formats=(
            Formats(names=("bf16", "fp16"), labels=("bfloat16",), fixed=_STATIC, pooled=True),
            Formats(
                names=("fp8",),
                labels=("fp8",),
                initial=_DYNAMIC,
                fixed=_LATER,
                alone=True,
                pooled=True,
            ),
            Formats(
                names=("fp8_block",),
                labels=("fp8_block",),
                initial=_DYNAMIC,
                fixed=_LATER,
                alone=True,
                pooled=True,
            ),
            Formats(
                names=("nvfp4",),
                labels=("nvfp4",),
                initial=_DYNAMIC,
                fixed=_LATER,
                alone=True,
                pooled=True,
            ),
            Formats(names=("int8",), labels=("sq",), initial=_DYNAMIC, fixed=_LATER),
            Formats(names=("int8_weight",), labels=("int8_wo",), fixed=_STATIC),
            Formats(names=("int4_weight",), labels=("int4_wo",), fixed=_STATIC),
        ),
        start={
            "launch": 4700,
            "compute": 0.9,
            "memory": 1.0,
            "headroom": 0.95,
            "k_fill": 115,
            "wave": 0.35,
            "k_split": 770,
            "operand": 2.7,
            "quantize": 1.5,
            "row": 500,
            "unaligned": 0.05,
            "reread": 1.0,
        },
        own=("launch", "compute", "memory", "headroom", "quantize", "row", "unaligned", "reread"),
        root=True,
        replayed=True,
        known=_dispatch,
        shared=("k_fill", "wave", "k_split", "operand"),
        prepare=_gemm,
        seconds=_gemm_seconds,
    ),
    Form(
        name="attention",
        file="attention_context.csv",
        key=("num_heads", "num_key_value_heads", "head_dim", "window_size", "isl"),
        formats=(
            Formats(names=("bf16", "fp16"), labels=("bfloat16",), pooled=True),
            Formats(names=("bf16_kv8", "fp16_kv8"), labels=("bfloat16_kv8",), pooled=True),
            Formats(names=("fp8",), labels=("fp8",), pooled=True),
        ),
        start={
            "launch": 15000,
            "compute": 0.75,
            "memory": 0.5,
            "softmax": 100,
            "padding": 40,
            "tile": 3000,
            "keys_split": 1000,
            "warm": 0.3,
            "append": 1.0,
            "wide": 0.3,
            "narrow": 0.1,
            "edge": 1.0,
            "join": 2,
            "replay_copies": 1.0,
        },
        own=(
            "launch",
            "compute",
            "memory",
            "softmax",
            "padding",
            "tile",
            "keys_split",
            "warm",
            "append",
            "wide",
            "narrow",
            "edge",
            "join",
        ),
        fixed={"headroom": 10.0, "settle": 8e-3},
        root=True,
        replayed=True,
        known=_prompt_kernel,
        prepare=_context,
        seconds=_context_seconds,
    ),
    Form(
        name="decode_attention",
        file="attention_decode.csv",
        key=("num_heads", "num_key_value_heads", "head_dim", "window_size", "step"),
        formats=(
            Formats(names=("bf16", "fp16"), labels=("bfloat16",), pooled=True),
            Formats(names=("bf16_kv8", "fp16_kv8", "fp8"), labels=("kv8",), pooled=True),
        ),
        start={
            "launch": 13000,
            "memory": 1.1,
            "tile": 2000,
            "grouped": 1.5,
            "query": 0.4,
            "key": 10,
            "wide": 0.3,
            "block": 1.0,
            "edge": 0.5,
            "late": 5000,
            "keys_split": 200,
            "combine": 4000,
            "join": 3,
            "warm": 0.5,
            "lone_launch": 2000,
            "lone_memory": 0.9,
            "replay_copies": 1.0,
        },
        own=(
            "launch",
            "memory",
            "tile",
            "grouped",
            "query",
            "key",
            "wide",
            "block",
            "edge",
            "late",
            "keys_split",
            "combine",
            "join",
            "warm",
            "lone_launch",
            "lone_memory",
        ),
        root=True,
        replayed=True,
        known=_decode_kernel,
        prepare=_decode,
        seconds=_decode_seconds,
    ),
    Form(
        name="latent_decode",
        file="mla_decode.csv",
        key=("num_heads", "batch_size", "step"),
        formats=(
            Formats(names=("bf16", "fp16"), labels=("bfloat16",), pooled=True),
            Formats(names=("bf16_kv8", "fp16_kv8", "fp8"), labels=("kv8",), reference="trtllm"),
        ),
        start={
            "launch": 12000,
            "tile": 1500,
            "compute": 0.6,
            "memory": 1.0,
            "rows": 64,
            "key": 10,
            "join": 3,
            "replay_copies": 1.0,
        },
        own=("launch", "tile", "compute", "memory", "rows", "key"),
        fixed={"join": 3.0},
        root=True,
        replayed=True,
        known=_latent_kernel,
        prepare=_latent,
        seconds=_latent_seconds,
    ),
    Form(
        name="grouped_matmul",
        file="moe.csv",
        key=("hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"),
        formats=(
            Formats(names=("bf16", "fp16"), labels=("bfloat16",), pooled=True),
            Formats(names=("fp8",), labels=("fp8",), reference="trtllm"),
            Formats(names=("fp8_block",), labels=("fp8_block",), pooled=True),
            Formats(names=("nvfp4",), labels=("nvfp4",), pooled=True),
            Formats(names=("int4_weight",), labels=("int4_wo", "w4a16_mxfp4"), pooled=True),
        ),
        start={
            "launch": 25000,
            "compute": 0.6,
            "memory": 1.0,
            "headroom": 0.95,
            "k_fill": 50,
            "wave": 0.35,
            "operand": 20,
            "fill": 0.2,
            "permute": 3,
            "spread": 0.5,
            "cached": 0.5,
            "align": 5,
            "lone_compute": 0.7,
            "lone_memory": 0.8,
            "lone_launch": 10000,
        },
        own=(
            "launch",
            "compute",
            "memory",
            "headroom",
            "k_fill",
            "wave",
            "operand",
            "fill",
            "permute",
            "spread",
            "cached",
            "align",
        ),
        branch=("lone_compute", "lone_memory", "lone_launch"),
        fixed={"settle": 8e-3},
        root=True,
        known=_moe_kernel,
        prepare=_moe,
        seconds=_moe_seconds,
    ),
    Form(
        name="collective",
        file="nccl.csv",
        key=("op_name", "num_gpus", "message_size"),
        formats=tuple(
            Formats(names=(f"{op}-{d}",), labels=(f"{op}-{d}",))
            for op in _COLLECTIVES.values()
            for d in (2, 4, 8)
        ),
        start={"base_s": 1e-5, "share": 0.8, "middle": 0.5},
        own=("base_s", "share", "middle"),
        fixed={"step_s": 0.0},
        least=20,
        prepare=_nccl,
        seconds=_nccl_seconds,
    ),
)
