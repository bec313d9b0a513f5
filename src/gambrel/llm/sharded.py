"""One device's share of a model, and the collectives between devices.

A layout turns a model into the model of the busiest device: fewer heads, narrower networks, fewer
experts and layers. The collectives are what that costs.
"""

from __future__ import annotations

import msgspec

from gambrel.llm.build import build
from gambrel.llm.collectives import place
from gambrel.llm.dims import plus, share, times
from gambrel.llm.exchange import Exchange, with_ends
from gambrel.llm.layouts import check
from gambrel.llm.precision import Precisions
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import Attention, FeedForward, Layer, LayerGroup, Mixer, Mixture, ModelSpec
from gambrel.llm.step import ForwardPass, SequenceGroup
from gambrel.llm.topology import Topology
from gambrel.workload import Workload

_replace = msgspec.structs.replace


def build_rank(
    spec: ModelSpec,
    step: ForwardPass,
    precisions: Precisions | str | None = None,
    sharding: Sharding | None = None,
    *,
    topology: Topology | None = None,
    runtime: str = "",
    fused: bool = True,
    routing_skew: float = 0.0,
    absorbed: bool | None = None,
) -> Workload:
    """The workload of the busiest device of a layout.

    Args:
        spec: The whole model.
        step: What *this device's group* passes: the sequences of one of the
            ``data x attention_data`` groups, and of one of ``pipeline`` microbatches. With
            ``context``, tokens are those of the whole sequence.
        precisions: Number formats; None for the checkpoint's.
        sharding: The layout; None is one device.
        topology: Nodes and links; None puts all devices into one.
        runtime: Whose kernels run: id of a serving engine, or empty.
        fused: Store q, k, v and gate, up as one matrix each, as every serving engine does.
        routing_skew: Exponent of a Zipf distribution of tokens over experts.
        absorbed: How latent attention runs; None: absorbed in decode and where drafted
            tokens are checked.

    Raises:
        InputError: The layout does not suit the model.
    """
    sharding = sharding or Sharding()
    check(sharding, spec)
    chosen = precisions if isinstance(precisions, Precisions) else spec.precisions(precisions)
    own = rank_of(spec, sharding)
    if fused:
        own = as_served(own)
    exchange = Exchange(own, sharding) if sharding.replica > 1 else None
    workload = build(
        own,
        rank_step(step, sharding),
        chosen,
        routing_skew=routing_skew,
        absorbed=absorbed,
        exchange=exchange,
    )
    workload = as_kernels(workload, chosen)
    scheme = "" if chosen.name == workload.dtype else chosen.name
    workload = _replace(workload, precisions=scheme, chosen_dtype=True)
    if sharding.devices == 1:
        return workload
    workload = with_ends(workload, sharding)
    return place(workload, sharding, topology or Topology(), runtime)


def as_kernels(workload: Workload, precisions: Precisions) -> Workload:
    """Says which kernels of narrow formats run, for the expected time.

    Checkpoints in nvfp4 carry the scales of activations. Published mixtures in fp8 have scales a
    block; so have other weights where the formats say so.
    """
    ops = []
    for op in workload.ops:
        scales = ""
        dtype = op.attrs.get("compute_dtype")
        if op.kind == "matmul" and dtype == "nvfp4":
            scales = "static_scales"
        elif dtype == "fp8" and precisions.block:
            scales = "block_scales"
        ops.append(_replace(op, attrs={**op.attrs, scales: True}) if scales else op)
    return _replace(workload, ops=tuple(ops))


def rank_of(spec: ModelSpec, sharding: Sharding) -> ModelSpec:
    """The model of one device: its share of heads, widths, experts, layers and vocabulary."""
    if sharding.replica == 1:
        return spec
    split = sharding.attention_tensor
    groups = tuple(
        _replace(
            group,
            layer=_layer(group.layer, sharding),
            count=count,
            distinct=None if group.distinct is None else min(group.distinct, count),
        )
        for group, count in zip(spec.layers, _stage(spec.layers, sharding.pipeline), strict=True)
        if count
    )
    # Every engine pads the vocabulary to a multiple of the devices that share it.
    return _replace(spec, layers=groups, vocab=-(-spec.vocab // split))


def as_loaded(spec: ModelSpec) -> ModelSpec:
    """The model as serving engines load it where no format is named: 32-bit checkpoints in 16 bits.

    vLLM's ``--dtype auto`` takes fp16 for them (its engine arguments,
    https://docs.vllm.ai/en/v0.6.3.post1/models/engine_args.html, read 2026-11), and GGUF files of
    16 bits are what llama.cpp's converter writes.
    """
    if spec.dtype != "fp32" or spec.quantization:
        return spec
    return _replace(spec, dtype="fp16", dtype_given=False)


def as_run(spec: ModelSpec, layers: str) -> ModelSpec:
    """The model as a runtime stores it.

    Args:
        spec: The model.
        layers: Of the runtime, as `gambrel.runtimes.Runtime.layers` has it; empty for those of an
            engine in the formats of the checkpoint.
    """
    if layers in ("", "code"):
        return spec
    return as_loaded(as_served(spec) if layers == "merged" else spec)


def as_served(spec: ModelSpec) -> ModelSpec:
    """The same model with q, k, v and gate, up stored as one matrix each: fewer, wider products."""
    return _replace(
        spec,
        layers=tuple(_replace(group, layer=_fused(group.layer)) for group in spec.layers),
    )


def rank_step(step: ForwardPass, sharding: Sharding) -> ForwardPass:
    """The step of one of ``context`` devices that share every sequence.

    In prefill a device has its share of the queries; with shares taken from both ends of a
    sequence each sees the same number of keys: the mean, half of those before it. In decode it has
    its share of the cache.
    """
    parts = sharding.context
    if parts == 1:
        return step
    return _replace(step, groups=tuple(_shared(group, parts) for group in step.groups))


def _shared(group: SequenceGroup, parts: int) -> SequenceGroup:
    if group.new_tokens == 1:
        return _replace(group, cached_tokens=share(group.cached_tokens, 1, parts))
    new = share(group.new_tokens, 1, parts)
    before = share(plus(group.new_tokens, times(-1, new)), 1, 2)
    return _replace(group, new_tokens=new, cached_tokens=plus(group.cached_tokens, before))


def _stage(groups: tuple[LayerGroup, ...], stages: int) -> list[int]:
    """Layers of each group in the busiest stage: its share, what is left over to the largest."""
    if stages == 1:
        return [group.count for group in groups]
    own = [group.count // stages for group in groups]
    missing = -(-sum(group.count for group in groups) // stages) - sum(own)
    largest = max(range(len(groups)), key=lambda i: groups[i].count)
    own[largest] += missing
    return own


def _layer(layer: Layer, sharding: Sharding) -> Layer:
    split = sharding.attention_tensor
    return _replace(
        layer,
        **{
            name: _mixer(mixer, split)
            for name in ("mixer", "beside", "cross")
            if (mixer := getattr(layer, name)) is not None
        },
        feed_forward=None
        if layer.feed_forward is None
        else _feed_forward(layer.feed_forward, sharding),
    )


def _mixer(mixer: Mixer, split: int) -> Mixer:
    """Its share of every size that is divided; what is copied is never cut."""
    own = {d.field: getattr(mixer, d.field) // split for d in mixer.DIVIDED}
    least = {d.field for d in mixer.DIVIDED if d.copied}
    return _replace(mixer, **{k: max(1, n) if k in least else n for k, n in own.items()})


def _feed_forward(part: FeedForward, sharding: Sharding) -> FeedForward:
    """Dense parts are split like attention; experts over all devices of the tensor group."""
    split = sharding.attention_tensor
    if not isinstance(part, Mixture):
        return _replace(part, width=part.width // split)
    return _replace(
        part,
        held=part.experts // sharding.expert,
        width=part.width // sharding.expert_tensor,
        shared_width=part.shared_width // split,
        spread=sharding.attention_data,
    )


def _fused(layer: Layer) -> Layer:
    mixer, part = layer.mixer, layer.feed_forward
    if isinstance(mixer, Attention) and not mixer.fused:
        mixer = _replace(mixer, fused="qkv")
    if isinstance(part, Mixture):
        part = _replace(part, shared_fused=part.gated)
    elif part is not None and part.gated:
        part = _replace(part, fused=True)
    return _replace(layer, mixer=mixer, feed_forward=part)
