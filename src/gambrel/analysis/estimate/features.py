"""From an op with its cost to the arguments of a formula: one rule a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from gambrel.analysis.estimate import attention_forms, expert_forms, forms, scan_forms
from gambrel.analysis.estimate.forms import Chip, Constants
from gambrel.dtypes import BITS, width_bytes
from gambrel.ops import Cost, OpView, cost
from gambrel.ops.base import Engine, Size, holds, minimum, product, total, where
from gambrel.ops.matmul import touched_share
from gambrel.ops.scan import DELTA_RULE
from gambrel.roofline import maximum

#: Up to so many query tokens a sequence, the kernels of decoding run.
DECODE_QUERIES: Final = 16
#: Share of the vector peak that a direct (depthwise) convolution reaches. Assumed: no convolutions
#: of GPUs are among the measured kernels, so that none is ever certain (`least`).
_DIRECT: Final = 0.3
#: Channels a group below which libraries convolve directly: less than the 16 rows of a matrix
#: instruction.
_NARROW: Final = 16
#: Share of the matrix peak that small products inside another kernel (scans) reach.
_INNER: Final = 0.3
_CACHE: Final = "kv_cache"
_INT8: Final = frozenset({"int8", "uint8"})


#: End of the scheme of products whose activations are narrow in memory.
STORED: Final = "_stored"


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of an op as the formulas see it.

    Attributes:
        view: The op.
        cost: Its work and traffic.
        matrix_peak: FLOP/s of the engine that serves its matrix work; 0 without.
        vector_peak: FLOP/s of the engine that serves its vector work; 0 without.
        direct_peak: FLOP/s of the vector units in the format of its matrix work; None where
            unknown, or where no kernel would use them.
        pace: ``matrix_peak`` over the device's peak in 16-bit formats, at most 1.
        link_byte_per_s: Bandwidth of the link to peers; 0 where unknown.
        network_byte_per_s: Bandwidth of the network between nodes; 0 where unknown.
        scheme: As `Rule.scheme` says, under this runtime.
        compiled: A compiler lays out tensors and writes the loops.
    """

    view: OpView
    cost: Cost
    matrix_peak: float
    vector_peak: float
    direct_peak: float | None = None
    pace: float = 1.0
    link_byte_per_s: float = 0.0
    network_byte_per_s: float = 0.0
    scheme: str = ""
    compiled: bool = False

    @property
    def traffic_bytes(self) -> Size:
        """Read and written."""
        return self.cost.read_bytes + self.cost.write_bytes

    @property
    def matrix_flops(self) -> Size:
        """Over all formats."""
        return total(n for (engine, _), n in self.cost.work.items() if engine is Engine.MATRIX)

    @property
    def vector_flops(self) -> Size:
        """Over all formats."""
        return total(n for (engine, _), n in self.cost.work.items() if engine is Engine.VECTOR)


Seconds: TypeAlias = Callable[[Constants, Chip, Task], Size]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of op is predicted.

    Attributes:
        form: Name of the formula, under which constants are stored.
        seconds: Its work, without the launch.
        scheme: Number format or scheme of the constants.
        least: Confidence that it never exceeds: ``medium`` for transferred classes.
        share: Of the arithmetic that is counted, what the least of its algorithms needs; None: all.
    """

    form: str
    seconds: Seconds
    scheme: Callable[[OpView], str]
    least: str = "high"
    share: Seconds | None = None


def rule_of(view: OpView) -> Rule:
    """The rule for an op."""
    if view.kind == "attention" and decodes(view):
        return _LATENT if _is_latent(view) else _DECODE
    if view.kind == "attention" and not _caches(view):
        return _UNCACHED
    return RULES.get(view.kind, _STREAM_LOW)


def decodes(view: OpView, tokens: str = "q_len") -> bool:
    """Whether an op has few queries, so that reading the cache or the state takes its time."""
    return holds(view.size(tokens) <= DECODE_QUERIES)


def _is_latent(view: OpView) -> bool:
    """Whether all heads read keys and values from one latent cache (latent attention)."""
    if len(view.inputs) < 3 or view.size("kv_heads", view.size("heads")) != 1:
        return False
    return bool(view.inputs[1].storage == view.inputs[2].storage)


def _scheme(view: OpView) -> str:
    """The number format, or how narrower weights are multiplied.

    Measured products of narrow formats quantise their activations on the way, with scales found
    there. Where the scales are given (``static_scales``) one more small kernel does it, and the
    product runs like one of a format that needs none. ``block_scales`` names other kernels.
    Activations that are 8 bits wide between the ops (``_stored``) were quantised by the kernel that
    wrote them, as static engines do; nothing is paid for them.
    """
    dtype = view.operand_dtype(2)
    if view.attrs.get("static_scales"):
        return "static_scales"
    if view.attrs.get("block_scales") and dtype == "fp8":
        return "fp8_block"
    if len(view.inputs) > 1 and view.inputs[1].role == "weight":
        bits = BITS[view.inputs[1].dtype]
        if bits < BITS[dtype] and BITS[dtype] == 16:
            return "int4_weight" if bits <= 6 else "int8_weight"
    if dtype in _INT8 or dtype == "fp8":
        name = "int8" if dtype in _INT8 else dtype
        return f"{name}{STORED}" if _stored_narrow(view) else name
    return dtype


def is_batch_of_weights(view: OpView) -> bool:
    """Whether an op multiplies each of several matrices by an 8-bit weight of its own."""
    if view.kind != "matmul" or len(view.inputs) < 2 or not holds(view.size("b", 1) > 1):
        return False
    return view.inputs[1].role == "weight" and BITS[view.inputs[1].dtype] == 8


def _stored_narrow(view: OpView) -> bool:
    """Whether the activations of an 8-bit product have 8 bits in memory."""
    return bool(view.inputs) and BITS[view.inputs[0].dtype] <= 8


def _attention_scheme(view: OpView) -> str:
    """The number format of the products, and whether keys and values are stored in 8 bits.

    Kernels over an 8-bit cache are others than those over a 16-bit one.
    """
    dtype = view.operand_dtype(1)
    if len(view.inputs) > 1 and BITS[view.inputs[1].dtype] < BITS[dtype] == 16:
        return f"{dtype}_kv8"
    return dtype


def _convolution_scheme(view: OpView) -> str:
    """That of products measured without quantisation on the way.

    The fp8 and int8 matmuls that were measured quantise their activations first, as language
    models do. Convolutional networks are quantised beforehand, so nothing of that is paid.
    """
    scheme = _scheme(view)
    return "bf16" if scheme.removesuffix(STORED) in {"int8", "fp8"} else scheme


def _matmul(c: Constants, machine: Chip, task: Task) -> Size:
    view = task.view
    b, m, n, k = view.size("b", 1), view.size("m"), view.size("n"), view.size("k")
    width = width_bytes(view.operand_dtype(2))
    widened = width == 1 and task.scheme == "bf16"  # by copies of the weights in 16 bits
    quantizes = width <= 1 and not widened and not task.scheme.endswith(STORED)
    seconds = forms.matmul(
        c,
        machine,
        task.matrix_peak,
        m=m,
        n=n,
        k=k,
        b=b,
        traffic_bytes=task.traffic_bytes + (b * k * n if widened else 0),
        quantized_bytes=b * m * k * 2 if quantizes else 0.0,
        pace=task.pace,
        padded=bool(view.attrs.get("padded_rows")),
    )
    if task.scheme != "static_scales":
        return seconds
    # A kernel of its own reads the activations, 16 bits wide, and writes them narrow.
    once = b * m * k * (2 + width) / machine.streaming(c["memory"])
    return seconds + forms.launch(c, machine) + once


def _grouped(c: Constants, machine: Chip, task: Task) -> Size:
    view = task.view
    rows, n, k, experts = view.size("rows"), view.size("n"), view.size("k"), view.size("experts")
    tokens, top_k = view.size("tokens"), view.size("top_k")
    share = touched_share(experts, top_k, tokens, float(view.attrs.get("routing_skew", 0.0)))
    # Of all experts a device may hold a part; each of them is touched as likely.
    weights = view.outputs[:1] if view.attrs.get("weight_gradient") else view.inputs[1:2]
    held = weights[0].shape[0] if weights and weights[0].shape else experts
    stored = weights[0].dtype if weights else view.dtype
    touched = minimum(held * share, rows)
    spread = 0.0 if view.attrs.get("own_rows") else maximum(tokens * top_k - rows, 0.0)
    if view.attrs.get("weight_gradient"):  # of each expert: a sum over its rows for each weight
        rows, k = touched * k, rows / touched
    return expert_forms.grouped_matmul(
        c,
        machine,
        task.matrix_peak,
        rows=rows,
        touched=touched,
        n=n,
        k=k,
        width=width_bytes(stored),
        # Formats of blocks, whose scales are a fraction of a bit, are stored in whole blocks.
        row_bytes=None if BITS[stored] % 1 == 0 else 0.0,
        few=tokens <= held,
        top_k=top_k,
        spread_bytes=spread * n * 4,
    )


def _convolution(c: Constants, machine: Chip, task: Task) -> Size:
    """As an implicit GEMM; few channels a group as well directly, on vector units."""
    view = task.view
    groups, kernel = view.size("groups", 1), product(view.size("kernel"))
    outputs, inputs = view.size("out_channels") / groups, view.size("in_channels") / groups
    m = view.size("batch") * product(view.size("spatial"))
    transposed = bool(view.attrs.get("transposed"))
    n, k = (outputs * kernel, inputs) if transposed else (outputs, inputs * kernel)
    one_pass = forms.matmul(
        c,
        machine,
        task.matrix_peak,
        m=m,
        n=n,
        k=k,
        b=groups,
        traffic_bytes=task.traffic_bytes,
        pace=task.pace,
    )
    passes = task.matrix_flops / (2 * m * n * k * groups)
    seconds = one_pass * maximum(passes, 1.0)
    if task.direct_peak is None:
        return seconds
    flops = task.matrix_flops / (task.direct_peak * _DIRECT)
    streamed = task.traffic_bytes / machine.streaming(c["memory"])
    directly = minimum(seconds, forms.overlap(flops, streamed))
    return where((groups > 1) & (maximum(inputs, outputs) < _NARROW), directly, seconds)


def _attention(c: Constants, machine: Chip, task: Task) -> Size:
    view = task.view
    d, dv = view.size("head_dim"), view.size("v_head_dim", view.size("head_dim"))
    queries, keys = view.size("q_len"), view.size("kv_len")
    kv_heads = view.size("kv_heads", view.size("heads"))
    return attention_forms.attention(
        c,
        machine,
        task.matrix_peak,
        pairs=task.matrix_flops / (2 * (d + dv)),
        queries=queries,
        longest=minimum(view.size("window", keys), keys),
        heads=view.size("heads"),
        kv_heads=kv_heads,
        batch=view.size("batch"),
        head_dim=(d + dv) / 2,
        traffic_bytes=task.traffic_bytes,
        kv_bytes=view.size("batch") * kv_heads * keys * (d + dv) * _appended_width(view),
    )


def _appended_width(view: OpView) -> float:
    """Bytes of a value of the keys that a kernel of its own writes to a cache; 0 without one."""
    return _kv_width(view) if _caches(view) else 0.0


def _caches(view: OpView) -> bool:
    """Whether the keys of an attention are kept in a cache."""
    return len(view.inputs) > 1 and view.inputs[1].role == _CACHE


def _kv_width(view: OpView) -> float:
    """Bytes of a value of the keys."""
    return width_bytes(view.inputs[1].dtype if len(view.inputs) > 1 else view.dtype)


def _decode_attention(c: Constants, machine: Chip, task: Task) -> Size:
    view = task.view
    d, dv = view.size("head_dim"), view.size("v_head_dim", view.size("head_dim"))
    keys = view.size("kv_len")
    seen = minimum(view.size("window", keys), keys)
    return attention_forms.decode_attention(
        c,
        machine,
        batch=view.size("batch"),
        heads=view.size("heads") * view.size("q_len"),
        kv_heads=view.size("kv_heads", view.size("heads")),
        head_dim=(d + dv) / 2,
        keys=seen,
        kv_bytes=(d + dv) * _kv_width(view),
        windowed="window" in view.sizes,
        cut=seen < keys,
    )


def _latent_decode(c: Constants, machine: Chip, task: Task) -> Size:
    view = task.view
    d, dv = view.size("head_dim"), view.size("v_head_dim", view.size("head_dim"))
    keys = view.size("kv_len")
    return attention_forms.latent_decode(
        c,
        machine,
        task.matrix_peak,
        batch=view.size("batch"),
        heads=view.size("heads") * view.size("q_len"),
        keys=minimum(view.size("window", keys), keys),
        widths=d + dv,
        token_bytes=maximum(d, dv) * _kv_width(view),
    )


def _stream(c: Constants, machine: Chip, task: Task) -> Size:
    return _moved(c, machine, task, task.traffic_bytes)


def _moved(c: Constants, machine: Chip, task: Task, traffic_bytes: Size) -> Size:
    """What it moves, and what it multiplies beside that."""
    seconds = forms.stream(
        c, machine, task.vector_peak, traffic_bytes=traffic_bytes, flops=task.vector_flops
    )
    if not task.matrix_peak:
        return seconds
    return forms.overlap(seconds, task.matrix_flops / (task.matrix_peak * _INNER))


def _dual_scan(c: Constants, machine: Chip, task: Task) -> Size:
    """A prompt of Mamba-2 by five kernels, whose results pass through memory; tokens by one."""
    if decodes(task.view, "seq"):
        return _stream(c, machine, task)
    moved = task.traffic_bytes + scan_forms.dual_bytes(task.view)
    starts = (scan_forms.DUAL_KERNELS - 1) * forms.launch(c, machine)
    return starts + _moved(c, machine, task, moved)


def _delta_scan(c: Constants, machine: Chip, task: Task) -> Size:
    """A prompt in chunks, by several kernels or one; a few tokens by a kernel of their own."""
    view = task.view
    batch, tokens, heads = view.size("batch"), view.size("seq"), view.size("heads")
    if decodes(view, "seq"):
        return scan_forms.token(
            c, machine, batch=batch * tokens, heads=heads, traffic_bytes=task.traffic_bytes
        )
    if view.attrs.get("fused"):
        return scan_forms.fused(
            c,
            machine,
            batch=batch,
            tokens=tokens,
            heads=heads,
            traffic_bytes=task.traffic_bytes,
        )
    return scan_forms.prompt(
        c,
        machine,
        batch=batch,
        tokens=tokens,
        heads=heads,
        key_dim=view.size("key_dim"),
        value_dim=view.size("value_dim"),
        traffic_bytes=task.traffic_bytes,
    )


def _collective(c: Constants, _machine: Chip, task: Task) -> Size:
    view, devices = task.view, task.view.size("devices")
    nodes = view.size("nodes", 1)
    share = view.attrs.get("ring_share")
    if isinstance(share, float):  # of this node, not of the one that was measured
        c = {**c, "share": share}
    seconds: Size = 0.0
    if task.link_byte_per_s:
        # Constants were fitted to the bytes of rings, whatever algorithm the library chose.
        seconds = forms.collective(
            c, task.link_byte_per_s, link_bytes=_ring_bytes(view), devices=devices / nodes
        )
        own_share = view.attrs.get("reduce_share")
        if isinstance(own_share, float) and "short_s" in c:
            own = forms.custom_all_reduce(
                c,
                task.link_byte_per_s,
                payload=view.size("payload_bytes"),
                devices=devices,
                share=own_share,
            )
            seconds = minimum(seconds, own)
        seconds = where(devices / nodes > 1, seconds, 0.0)
    if task.network_byte_per_s:
        seconds = seconds + forms.over_network(
            c,
            task.network_byte_per_s,
            network_bytes=task.cost.network_bytes,
            nodes=nodes,
            latency_s=float(view.attrs.get("network_latency_s", 0.0)),
        )
    return seconds


def _ring_bytes(view: OpView) -> Size:
    """What a device sends within the node by rings."""
    plain = {k: v for k, v in view.attrs.items() if k != "algorithm"}
    found = cost(replace(view, attrs=plain))
    return 0.0 if found is None else found.link_bytes


#: Collectives that were measured; others use the nearest of them in bytes and steps.
_LIKE: Final = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
}


def _collective_scheme(view: OpView) -> str:
    devices = view.size("devices") / view.size("nodes", 1)
    count = int(devices) if isinstance(devices, int | float) else 8
    near = next((d for d in (2, 4) if count <= d), 8)
    return f"{_LIKE.get(str(view.attrs.get('function')), 'all_gather')}-{near}"


def _any(_view: OpView) -> str:
    return "any"


_DECODE: Final = Rule(form="decode_attention", seconds=_decode_attention, scheme=_attention_scheme)
_LATENT: Final = Rule(form="latent_decode", seconds=_latent_decode, scheme=_attention_scheme)
#: Its constants are of kernels whose keys go to a cache.
_UNCACHED: Final = Rule(
    form="attention", seconds=_attention, scheme=_attention_scheme, least="medium"
)
_STREAM: Final = Rule(form="stream", seconds=_stream, scheme=_any, least="medium")
#: Kinds whose kernels are unlike anything measured: sorting, recurrences, decompositions.
_STREAM_LOW: Final = Rule(form="stream", seconds=_stream, scheme=_any, least="low")
_CONVOLUTION: Final = Rule(
    form="matmul", seconds=_convolution, scheme=_convolution_scheme, least="medium"
)

_STREAMED: Final = (
    "normalization",
    "normalization_backward",
    "softmax",
    "softmax_backward",
    "elementwise",
    "elementwise_backward",
    "reduction",
    "cumulative",
    "pooling",
    "pooling_backward",
    "interpolation",
    "embedding",
    "embedding_backward",
    "gather",
    "scatter",
    "copy",
    "fill",
    "random",
    "optimizer",
    "loss",
)

RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_STREAMED, _STREAM),
    "matmul": Rule(form="matmul", seconds=_matmul, scheme=_scheme),
    "grouped_matmul": Rule(form="grouped_matmul", seconds=_grouped, scheme=_scheme),
    "convolution": _CONVOLUTION,
    "convolution_backward": _CONVOLUTION,
    "attention": Rule(form="attention", seconds=_attention, scheme=_attention_scheme),
    "attention_backward": _UNCACHED,
    DELTA_RULE: Rule(form="stream", seconds=_delta_scan, scheme=_any, least="low"),
    "ssd_scan": Rule(form="stream", seconds=_dual_scan, scheme=_any, least="low"),
    "collective": Rule(form="collective", seconds=_collective, scheme=_collective_scheme),
}
