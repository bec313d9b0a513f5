"""Parts that run once over an input of their own: text, image and audio encoders."""

from __future__ import annotations

from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.blocks.front import frames, look_up, patches
from gambrel.llm.blocks.layer import ResidualStream, run_layer
from gambrel.llm.blocks.linear import linear
from gambrel.llm.blocks.norms import norm
from gambrel.llm.dims import times
from gambrel.llm.spec import Encoder, Patches, Projector
from gambrel.llm.step import SequenceGroup
from gambrel.workload import Dim


def tokens_of(encoder: Encoder, source: Dim) -> Dim:
    """Tokens that an encoder makes of one item; ``source`` for a text encoder."""
    return source if encoder.front is None else encoder.front.tokens


def run_encoder(e: Emitter, encoder: Encoder, items: Dim, source: Dim, vocab: int) -> Index:
    """Writes an encoder and, where it has one, the projector behind it.

    Args:
        e: Where to write; its groups are restored.
        encoder: The part.
        items: Texts, images or recordings.
        source: Tokens of each text.
        vocab: Rows of the embedding that a text encoder shares with the model.

    Returns:
        Its output.
    """
    tokens = tokens_of(encoder, source)
    rows = times(items, tokens)
    before = e.groups
    e.groups = (SequenceGroup(count=items, new_tokens=tokens),)
    with e.inside(encoder.name):
        x = _entry(e, encoder, items, rows)
        if encoder.front is None:
            x = _shared_look_up(e, vocab, rows, encoder.hidden)
        if encoder.entry_norm:
            x = _norm(e, encoder, x, "entry_norm", rows)
        if encoder.biasing:
            e.weight("relative_bias", (encoder.biasing,))
        s = ResidualStream(rows=rows, hidden=encoder.hidden)
        for group in encoder.layers:
            with e.inside(f"{group.name}.*", repeat=group.count, copies=group.copies):
                x = run_layer(e, group.layer, x, s)
        if encoder.final_norm:
            x = _norm(e, encoder, x, "norm", rows)
        if encoder.pooling_head:
            e.weight("unused", (encoder.pooling_head,))
    e.groups = before
    if encoder.projector is not None:
        x = _project(e, encoder.projector, x, items)
    return x


def _entry(e: Emitter, encoder: Encoder, items: Dim, rows: Dim) -> Index:
    front = encoder.front
    if front is None:
        return e.activation(rows, encoder.hidden)
    if isinstance(front, Patches):
        return patches(e, front, items, encoder.hidden)
    return frames(e, front, items, encoder.hidden)


def _shared_look_up(e: Emitter, vocab: int, rows: Dim, width: int) -> Index:
    """The model's own embedding serves its text encoder too."""
    with e.outside():
        return look_up(e, "embedding", vocab, rows, width)


def _norm(e: Emitter, encoder: Encoder, x: Index, name: str, rows: Dim) -> Index:
    kind = encoder.entry_norm if name == "entry_norm" else encoder.final_norm
    return norm(e, x, name, rows, encoder.hidden, kind, bias=encoder.norm_bias)


def _project(e: Emitter, p: Projector, x: Index, items: Dim) -> Index:
    rows = times(items, p.tokens)
    with e.inside("projector"):
        if p.norm:
            normed = times(rows, p.widths[0] // p.norm_width) if p.norm_width else rows
            x = norm(e, x, "norm", normed, p.norm_width, p.norm, bias=p.norm_bias)
        x = e.view(x, (rows, p.widths[0]))
        last = len(p.widths) - 2
        for i, (k, n) in enumerate(zip(p.widths, p.widths[1:], strict=False)):
            x = linear(e, x, f"linear_{i + 1}", rows, k, n, bias=p.bias, part="activations")
            if i < last:
                x = e.elementwise("gelu", (x,), rows, n)
    return x
