"""How long a training step takes on the stacks that people tune: one form, few constants.

Per layer and microbatch GEMMs, experts and attention run at shares of the peak (GEMMs in 16 bits on
GPUs at those of their kernels where none is fitted), everything else passes over the stream of
activations a number of times and the loss over the logits; tensor and expert parallelism exchange
activations, of which a share is hidden; the host launches each layer. A step is the passes of all
microbatches with the idle time of the pipeline, what the exchange of gradients does not hide behind
backward, and the update:

    pass = max(GEMM / e + experts / (e · e_x) + attention · (1 + half / keys) / e_a
               + (passes · stream + loss) / bandwidth + x_t · tensor exchange
               + x_e · expert exchange, layers · host)
    step = (m + idle) · pass + gradients + update

A tile of attention costs its start besides its keys, as so many keys take: windows and short
sequences stay further below the peak. Constants belong to an architecture;
``scripts/fit_training.py`` fits them to published steps, and ``training.toml`` has them with their
sources.
"""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from gambrel import roofline
from gambrel.analysis.measures import Limiter
from gambrel.analysis.result import Analysis, OpResult
from gambrel.device.model import Device
from gambrel.device.roofs import NETWORK
from gambrel.llm.recompute import class_of, classes_of
from gambrel.llm.spec import Attention, LatentAttention, Mixture, ModelSpec, mixers_of
from gambrel.llm.topology import Topology
from gambrel.llm.training_activations import Parameters
from gambrel.llm.training_plan import TrainingPlan
from gambrel.workload import Phase

_FILES: Final = tuple(Path(__file__).with_name(n) for n in ("training.toml", "training_tpu.toml"))
#: Kinds of ops that mix positions on the matrix engine: attention, and scans in chunks like it.
_MIXING: Final = ("attention", "ssd_scan", "delta_scan")
_ATTENTION: Final = frozenset(_MIXING) | {f"{kind}_backward" for kind in _MIXING}
#: Collectives that carry tokens to their experts and back.
_ROUTED: Final = frozenset({"dispatch", "combine"})
#: What recurrent layers run in kernels of their own, over a stream several times as wide.
_MIXERS: Final = frozenset({"convolution", "selective_scan", "ssd_scan", "delta_scan"})
_PRODUCTS: Final = frozenset({"matmul", "grouped_matmul", "attention"})
#: How much further the range reaches on a device whose steps were not fitted. Assumed.
_UNFITTED: Final = (0.75, 1.2)
#: Runtimes under which every op is a kernel of its own. Without any, kernels are fused.
EAGER: Final = frozenset({"pytorch", "pytorch-graph"})
_LOSS: Final = frozenset({"loss", "loss_backward"})
#: Bytes that a loss in fp32 reads and writes of a logit (cast, logarithm of the softmax, and their
#: gradients, kernel by kernel: 36) over the 6 of a fused one.
_WIDE_LOSS: Final = 6.0
_WIDE: Final = frozenset({"bf16", "fp16", "fp32", "tf32"})


class Stack(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Constants of tuned training stacks on one architecture.

    Attributes:
        name: For reports.
        architectures: Patterns, one of which occurs in the device's architecture.
        gemm: Share of the peak that GEMMs reach, by number format; 16-bit formats that are not
            listed take what their kernels take, shape by shape, as in inference.
        attention: Share of the 16-bit peak that attention reaches, forward and backward, where it
            sees many keys.
        attention_half: Keys of a sequence with which it reaches half of that.
        passes: How often the stream of activations is read or written per layer, fused kernels.
        eager_passes: The same where every op is a kernel of its own.
        expert_share: Experts against GEMMs of the same format.
        narrow_experts: The same again where experts compute in 8 bits or fewer.
        expert_passes: How often the rows of experts are read or written.
        tensor_shown: Share of the exchange within tensor groups that is not hidden.
        expert_shown: Share of the exchange of tokens between experts that is not hidden.
        gradient_shown: Share of the exchange of gradients that backward could hide and does not.
        network: Share of the network's bandwidth that large exchanges reach.
        host_layer_s: The host, per layer and microbatch, forward and backward.
        host_experts_s: The same for a layer with experts.
        low: Shortest measured step of nine in ten, over the expected one.
        high: Longest of nine in ten for tuned stacks, over the expected one.
        production: Published production runs over the expected step.
        rows: Steps that the constants were fitted to.
        error: Mean error with each model left out.
        source: Where the steps are from.
        fitted: The devices whose steps were fitted, where they do not stand for all of the
            architectures: on others the range reaches further and the confidence is low.
        production_on: Where the production runs ran, where not on these architectures.
    """

    name: str
    architectures: tuple[str, ...]
    gemm: dict[str, float]
    attention: float
    attention_half: float
    passes: float
    eager_passes: float
    expert_share: float
    narrow_experts: float
    expert_passes: float
    tensor_shown: float
    expert_shown: float
    gradient_shown: float
    network: float
    host_layer_s: float
    host_experts_s: float
    low: float
    high: float
    production: float
    rows: int
    error: float
    source: str
    fitted: tuple[str, ...] = ()
    production_on: str = ""

    def fits(self, device: Device) -> bool:
        """Whether steps on the device, or its like, were fitted."""
        return not self.fitted or device.id in self.fitted

    def ends(self, device: Device) -> tuple[float, float]:
        """Both ends of the range over the expected step: tuned runs, and production runs."""
        reach = (1.0, 1.0) if self.fits(device) else _UNFITTED
        return self.low * reach[0], self.production * reach[1]


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """One microbatch on one device and its exchange of gradients, before constants.

    Attributes:
        gemm_s: Number format → seconds of GEMMs at the peak.
        kernels_s: The same by their kernels; not a number where these are not known.
        expert_s: The same of experts.
        attention_s: Attention at the peak.
        per_key: 1 / keys of a sequence or window, the mean over the work of attention.
        stream_s: The stream of activations of all layers, once over the main memory.
        rows_s: The rows of experts, once over the main memory.
        shared_s: Exchange within tensor and context groups, and between stages, at the link's rate.
        routed_s: Tokens to experts and back, at the rate of their link.
        gradient_s: All exchange of gradients and parameters of a step, at the rate of the slower of
            the link and the network of a whole node.
        update_s: The optimizer.
        layers: Layers without experts.
        mixtures: Layers with experts.
        eager: Whether every op is a kernel of its own.
        loss_s: What the loss reads and writes of the logits, at the rate of the main memory.
        again_s: Other ops than products that run again in backward, and scans and convolutions, at
            the rate of the main memory.
    """

    gemm_s: dict[str, float]
    kernels_s: dict[str, float]
    expert_s: dict[str, float]
    attention_s: float
    stream_s: float
    rows_s: float
    shared_s: float
    routed_s: float
    gradient_s: float
    update_s: float
    layers: float
    mixtures: float
    eager: bool
    again_s: float = 0.0
    per_key: float = 0.0
    loss_s: float = 0.0


@lru_cache(maxsize=1)
def stacks() -> tuple[Stack, ...]:
    """All of them."""
    texts = (file.read_text(encoding="utf-8") for file in _FILES)
    rows = [row for text in texts for row in tomllib.loads(text)["stacks"]]
    return msgspec.convert(rows, tuple[Stack, ...])


def stack_of(device: Device) -> Stack | None:
    """The constants of a device; None where no step of its architecture was measured."""
    name = device.architecture.lower()
    return next((s for s in stacks() if any(a in name for a in s.architectures)), None)


def _busy(ops: Iterable[OpResult]) -> dict[str, dict[str, float]]:
    """Seconds at the peaks and at the links' rates, by what is done and in which format."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for op in ops:
        if op.kind == "collective":
            axis = "routed" if op.name.rpartition(" ")[2] in _ROUTED else "shared"
            found[axis][""] += op.measures.roofline_time_s or 0.0
        kind = "experts" if op.kind == "grouped_matmul" else "gemm"
        for work in op.measures.work:
            if work.work_class == "matrix" and work.time_s is not None:
                found["attention" if op.kind in _ATTENTION else kind][work.dtype] += work.time_s
                if op.kind == "matmul":
                    alone = op.measures.expected_time_s
                    found["kernels"][work.dtype] += math.nan if alone is None else alone.value
    return found


def rerun(op: OpResult) -> str:
    """The class of an op that runs again in backward; empty for any other."""
    if op.phase != Phase.BACKWARD or op.op in ("input gradient", "weight gradient"):
        return ""
    return class_of(op.kind, op.module, op.op)


def ops_of(passes: Analysis, recompute: str) -> list[OpResult]:
    """The ops of a choice, from an analysis in which every class runs again."""
    if recompute == "full":
        kept = [op for op in passes.ops if not rerun(op)]
        return kept + [op for op in kept if op.phase == Phase.FORWARD and op.count > 1]
    classes = classes_of(recompute) | {""}
    return [op for op in passes.ops if rerun(op) in classes]


def parts_of(
    passes: Analysis,
    rank: ModelSpec,
    plan: TrainingPlan,
    *,
    gradient_s: float,
    update_s: float,
    eager: bool,
    ops: Sequence[OpResult] | None = None,
) -> Parts:
    """What one microbatch of a device consists of.

    Args:
        passes: Forward and backward on the device.
        rank: The model of the device.
        plan: How it is trained.
        gradient_s: See `Parts`.
        update_s: See `Parts`.
        eager: See `Parts`.
        ops: Those of the choice; None are all of ``passes``.
    """
    ops = passes.ops if ops is None else ops
    seconds = _busy(ops)
    mixed = [
        (group.count, part)
        for group in rank.layers
        if isinstance(part := group.layer.feed_forward, Mixture)
    ]
    mixtures = sum(count for count, _ in mixed)
    # Latent experts read and write rows of their own width.
    picked = sum(count * m.top_k * (m.latent or rank.hidden) for count, m in mixed)
    layers = sum(group.count for group in rank.layers) - mixtures
    bandwidth = passes.total.peak_byte_per_s or math.inf
    split = plan.sharding.context * plan.sharding.attention_tensor
    value_s = roofline.seconds(2 * plan.sequences * plan.seq / split, bandwidth)
    full = plan.recompute == "full"
    again = 4 / 3 if full else 1.0
    others = [op for op in ops if op.kind.removesuffix("_backward") in _MIXERS]
    if not full:
        others += [op for op in ops if rerun(op) and op.kind not in _PRODUCTS]
    return Parts(
        gemm_s=dict(seconds["gemm"]),
        kernels_s=dict(seconds["kernels"]),
        expert_s=dict(seconds["experts"]),
        attention_s=sum(seconds["attention"].values()),
        stream_s=value_s * rank.hidden * (layers + mixtures) * again,
        rows_s=value_s * picked * again,
        shared_s=sum(seconds["shared"].values()),
        routed_s=sum(seconds["routed"].values()),
        gradient_s=gradient_s,
        update_s=update_s,
        layers=layers,
        mixtures=mixtures,
        eager=eager,
        again_s=sum(op.measures.roofline_time_s or 0.0 for op in others),
        per_key=_per_key(rank, plan.seq),
        loss_s=(_WIDE_LOSS if _loss_in_parts(plan, eager=eager) else 1.0)
        * sum(op.measures.roofline_time_s or 0.0 for op in ops if op.kind in _LOSS),
    )


def _loss_in_parts(plan: TrainingPlan, *, eager: bool) -> bool:
    """Whether the loss is several kernels in fp32: as asked for, or where nothing fuses it."""
    return plan.loss == "fp32" or (eager and not plan.fused_loss)


def _per_key(rank: ModelSpec, seq: int) -> float:
    """1 / keys that attention sees at most, the mean over its work."""
    seen = [
        (group.count * m.heads, min(seq, getattr(m, "reach", None) or seq))
        for group in rank.layers
        for m in mixers_of(group.layer)
        if isinstance(m, (Attention, LatentAttention))
    ]
    work = sum(heads * keys for heads, keys in seen)
    return sum(heads for heads, _ in seen) / work if work else 0.0


def pass_s(parts: Parts, stack: Stack) -> tuple[float, dict[Limiter, float]]:
    """Seconds of one microbatch, and what takes them."""
    narrow = {k: stack.narrow_experts if k not in _WIDE else 1.0 for k in parts.expert_s}
    compute = sum(t / _share(k, parts, stack) for k, t in parts.gemm_s.items())
    compute += sum(
        t / (_share(k, parts, stack) * stack.expert_share * narrow[k])
        for k, t in parts.expert_s.items()
    )
    touches = stack.eager_passes if parts.eager else stack.passes
    memory = touches * parts.stream_s + stack.expert_passes * parts.rows_s + parts.again_s
    memory += parts.loss_s
    shares = {
        Limiter.COMPUTE: compute
        + parts.attention_s * (1 + stack.attention_half * parts.per_key) / stack.attention,
        Limiter.MEMORY: memory,
        Limiter.NETWORK: stack.tensor_shown * parts.shared_s + stack.expert_shown * parts.routed_s,
    }
    host = parts.layers * stack.host_layer_s + parts.mixtures * stack.host_experts_s
    waits = max(0.0, host - sum(shares.values()))
    return sum(shares.values()) + waits, {**shares, Limiter.HOST: waits}


def exchange_s(parts: Parts, stack: Stack, compute_s: float) -> float:
    """What backward does not hide of the exchange of gradients.

    All that is longer than nine tenths of the passes, and a share of the rest.
    """
    whole = parts.gradient_s / stack.network
    return max(0.0, whole - 0.9 * compute_s) + stack.gradient_shown * min(whole, compute_s)


def step_s(parts: Parts, stack: Stack, microbatches: int, idle: float) -> float:
    """Seconds of a step."""
    one, _ = pass_s(parts, stack)
    whole = (microbatches + idle) * one
    return whole + exchange_s(parts, stack, microbatches * one) + parts.update_s


def gradient_s(own: Parameters, plan: GradientExchange, node: Topology, device: Device) -> float:
    """Seconds of the exchange of gradients and parameters in a step, at the links' rates.

    A ring over all replicas leaves each node once: the network of a whole node serves it, shared
    by its tensor groups.

    Args:
        own: Parameters of a device, exchanged in 16 bits.
        plan: How they are exchanged.
        node: The node.
        device: With its links placed.
    """
    seconds = 0.0
    for count, replicas in ((own.dense, plan.replicas), (own.experts, plan.expert_replicas)):
        if replicas > 1 and count:
            sent = plan.passes * 2.0 * count * (replicas - 1) / replicas
            seconds += roofline.seconds(sent, _rate(replicas, plan.tensor, node, device))
    return seconds


def _rate(replicas: int, tensor: int, node: Topology, device: Device) -> float:
    own = [x.byte_per_s_per_direction for x in device.links if x.name not in (NETWORK, "pcie")]
    link = max((rate for rate in own if rate), default=math.inf)
    size = node.devices_per_node
    if size is None or replicas * tensor <= size or node.network_byte_per_s is None:
        return link
    return min(size * node.network_byte_per_s / tensor, link)


class GradientExchange(msgspec.Struct, frozen=True, kw_only=True):
    """How gradients and parameters pass between replicas.

    Attributes:
        passes: Times that all parameters cross in a step: an all-reduce is two.
        replicas: Devices with the same dense parts.
        expert_replicas: Devices with the same experts.
        tensor: Devices of a tensor group, whose rings share the network of a node.
    """

    passes: int
    replicas: int
    expert_replicas: int
    tensor: int


def _share(dtype: str, parts: Parts, stack: Stack) -> float:
    """Share of the peak that products reach in a format: as fitted, or as their kernels do."""
    peak_s, kernels_s = parts.gemm_s.get(dtype), parts.kernels_s.get(dtype, math.nan)
    if dtype not in stack.gemm and dtype in _WIDE and peak_s and not math.isnan(kernels_s):
        return peak_s / kernels_s
    alike = "bf16" if dtype in _WIDE else "fp8"
    return stack.gemm.get(dtype) or stack.gemm.get(alike) or min(stack.gemm.values(), default=1.0)
