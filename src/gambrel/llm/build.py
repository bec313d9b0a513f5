"""From a model, a step and number formats to the workload of one device.

What is counted: every GEMM, attention and scan; norms (the residual addition in front of
one is part of it), the activation with its gate, the addition at the end of a layer, look-ups,
router, softmax, top-k. Rotation and norms of queries and keys, and what happens to the experts'
results, run inside the kernels that read or write them. The LM head sees the last token of each
sequence. Layers that are equal are written once, with `Op.repeat`.
"""

from __future__ import annotations

from gambrel.errors import InputError
from gambrel.llm.blocks import code
from gambrel.llm.blocks.attention import Memory
from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.blocks.encoder import run_encoder, tokens_of
from gambrel.llm.blocks.front import look_up, patches
from gambrel.llm.blocks.layer import Exchange, ResidualStream, run_layer
from gambrel.llm.blocks.linear import as_output, linear
from gambrel.llm.blocks.norms import add, norm
from gambrel.llm.dims import times
from gambrel.llm.precision import Precisions
from gambrel.llm.spec import Attention, LatentAttention, LayerGroup, ModelSpec, mixers_of
from gambrel.llm.step import ForwardPass, SequenceGroup
from gambrel.workload import Dim, Workload


def build(
    spec: ModelSpec,
    step: ForwardPass,
    precisions: Precisions | str | None = None,
    *,
    routing_skew: float = 0.0,
    absorbed: bool | None = None,
    exchange: Exchange | None = None,
    as_code: bool = False,
) -> Workload:
    """The workload of one forward pass on one device.

    Args:
        spec: The model, or one device's share of it.
        step: Which tokens pass.
        precisions: Number formats; a spelling of `Precisions.parse`, or None for the checkpoint's.
        routing_skew: Exponent of a Zipf distribution of tokens over experts; 0 is uniform.
        absorbed: Whether latent attention multiplies queries into the latent space instead of
            expanding the cache; None: in decode.
        exchange: What devices do after each part: `gambrel.llm.blocks.layer.Exchange`.
        as_code: Every op of the model's code is a kernel of its own: `gambrel.llm.blocks.code`.

    Returns:
        A workload; its symbols are those of the step.

    Raises:
        InputError: The step does not fit the model (a context beyond a learned position table).
    """
    p = precisions if isinstance(precisions, Precisions) else spec.precisions(precisions)
    _check(spec, step)
    e = Emitter(
        precisions=p,
        groups=step.groups,
        symbols=step.symbols,
        routing_skew=routing_skew,
        absorbed=_absorbs(step, absorbed),
        as_code=as_code,
        shifted_norms=spec.shifted_norms,
        written_norms=spec.written_norms,
    )
    x, memory = _embed(e, spec, step), _encode(e, spec, step)
    s = ResidualStream(rows=_rows(spec, step), hidden=spec.hidden, memory=memory, exchange=exchange)
    _shared(e, spec, s.rows)
    for group in spec.layers:
        x = _layers(e, group, x, s)
    out = _head(e, spec, step, _predict_further(e, spec, x, s) if step.mtp else x)
    return Workload(
        name=spec.name,
        dtype=p.activations,
        tensors=tuple(e.tensors),
        ops=tuple(e.ops),
        outputs=(out,),
        symbols=step.symbols,
        origin=f"closed form of {spec.family}",
        assumptions=(
            *_remarks(spec, step, routing_skew),
            *spec.notes,
            *p.describe(experts=bool(spec.mixtures)),
        ),
    )


def _absorbs(step: ForwardPass, absorbed: bool | None) -> bool | None:
    """Engines check drafted tokens with the kernel that decodes."""
    return True if absorbed is None and step.label == "verify" else absorbed


def _check(spec: ModelSpec, step: ForwardPass) -> None:
    if not spec.positions:
        return
    for group in step.groups:
        if not isinstance(group.context, str) and group.context > spec.positions:
            raise InputError(
                f"context {group.context}: {spec.name} has a table of {spec.positions} positions; "
                f"at most {spec.positions} fit."
            )


def _shared(e: Emitter, spec: ModelSpec, rows: Dim) -> None:
    """What all layers take: position biases; as code, the angles of the first that rotates."""
    if spec.biasing:
        e.weight("relative_bias", (spec.biasing,))
    if not e.as_code:
        return
    found = (m for group in spec.layers for m in mixers_of(group.layer))
    for mixer in found:
        if isinstance(mixer, Attention) and mixer.rope:
            code.angles(e, rows, mixer.rotary_dim or mixer.head_dim)
            return
        if isinstance(mixer, LatentAttention):
            code.angles(e, rows, mixer.rope_head_dim)
            return


def _layers(e: Emitter, group: LayerGroup, x: Index, s: ResidualStream) -> Index:
    with e.inside(f"{group.name}.*", repeat=group.count, copies=group.copies):
        return run_layer(e, group.layer, x, s)


def _rows(spec: ModelSpec, step: ForwardPass) -> Dim:
    """Tokens of the residual stream: patches of images where the model sees images alone."""
    return step.tokens if spec.front is None else times(step.sequences, spec.front.tokens)


def _embed(e: Emitter, spec: ModelSpec, step: ForwardPass) -> Index:
    rows = step.tokens
    if spec.front is not None:
        x = patches(e, spec.front, step.sequences, spec.hidden)
        e.groups = (SequenceGroup(count=step.sequences, new_tokens=spec.front.tokens),)
        rows = _rows(spec, step)
        if spec.embedding_norm:
            x = norm(
                e, x, "embedding_norm", rows, spec.hidden, spec.embedding_norm, bias=spec.norm_bias
            )
        return x
    width = spec.embedding_width or spec.hidden
    x = look_up(e, "embedding", spec.vocab, rows, width)
    if spec.positions:
        x = add(e, x, look_up(e, "positions", spec.positions, rows, width), rows, width)
    if spec.token_types:
        x = add(e, x, look_up(e, "token_types", spec.token_types, rows, width), rows, width)
    if spec.embedding_norm:
        x = norm(e, x, "embedding_norm", rows, width, spec.embedding_norm, bias=spec.norm_bias)
    if width != spec.hidden:
        bias = not spec.causal  # ELECTRA's has one, OPT's has none
        x = linear(
            e, x, "embedding_projection", rows, width, spec.hidden, part="embeddings", bias=bias
        )
    return x


def _encode(e: Emitter, spec: ModelSpec, step: ForwardPass) -> Memory | None:
    """Runs the encoders, or keeps their weights in memory; what cross attention reads."""
    memory: Memory | None = None
    for encoder in spec.encoders:
        tensors, ops = len(e.tensors), len(e.ops)
        out = run_encoder(e, encoder, step.sequences, step.source, spec.vocab)
        if not step.encode:
            e.keep_weights(tensors, ops)
        if encoder.projector is None:
            memory = (out if step.encode else None, tokens_of(encoder, step.source))
    return memory


def _predict_further(e: Emitter, spec: ModelSpec, x: Index, s: ResidualStream) -> Index:
    """Layers that predict tokens behind the next: each reads the stream and a new embedding."""
    if not spec.mtp or spec.mtp_layer is None:
        raise InputError(f"{spec.name} has no layers for multi-token prediction.")
    with e.inside("mtp.*", repeat=spec.mtp, copies=spec.mtp):
        own = norm(e, x, "hidden_norm", s.rows, s.hidden, spec.final_norm)
        new = norm(e, x, "embedding_norm", s.rows, s.hidden, spec.final_norm)
        both = e.activation(s.rows, 2 * s.hidden)
        e.op("copy", (own, new), (both,), name="cat", attrs={"function": "cat"})
        joined = linear(e, both, "projection", s.rows, 2 * s.hidden, s.hidden)
        return run_layer(e, spec.mtp_layer, joined, s)


def _head(e: Emitter, spec: ModelSpec, step: ForwardPass, x: Index) -> Index:
    rows = _rows(spec, step)
    if spec.final_norm:
        x = norm(e, x, "norm", rows, spec.hidden, spec.final_norm, bias=spec.norm_bias)
    if spec.head == "none":
        as_output(e, x)
        return x
    kept = e.view(x, (step.head_tokens, spec.hidden))
    if spec.head != "lm":
        width = spec.hidden if spec.head == "pooler" else spec.labels
        out = linear(
            e, kept, spec.head, step.head_tokens, spec.hidden, width, bias=True, part="activations"
        )
        as_output(e, x if spec.head == "pooler" else out)
        return x if spec.head == "pooler" else out
    tied = e.named("embedding.weight") if spec.tied else None
    out = linear(
        e,
        kept,
        "lm_head",
        step.head_tokens,
        spec.hidden,
        spec.vocab,
        bias=spec.head_bias,
        part="lm_head",
        weight=tied,
    )
    as_output(e, out)
    return out


def _remarks(spec: ModelSpec, step: ForwardPass, skew: float) -> tuple[str, ...]:
    where = "the last token of each sequence"
    if step.outputs is not None:
        where = "the tokens to check" if step.label == "verify" else "every token"
    remarks = [f"{step.label}: the head runs on {where}." if spec.head == "lm" else ""]
    if spec.mixtures:
        how = f"by a Zipf distribution of exponent {skew:g}" if skew else "evenly"
        remarks.append(f"Mixture of experts: tokens are spread {how} over the experts.")
    if any(isinstance(g.context, str) for g in step.groups) and any(
        isinstance(mixer, Attention) and mixer.reach is not None
        for group in spec.layers
        for mixer in mixers_of(group.layer)
    ):
        remarks.append(
            "Sizes are open: caches of windows are counted at full length in memory, and chunks of "
            "attention as windows."
        )
    return tuple(r for r in remarks if r)
