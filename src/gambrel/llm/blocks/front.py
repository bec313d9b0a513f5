"""How inputs become tokens: look-ups, patches of images, frames of a spectrogram."""

from __future__ import annotations

from gambrel.llm.blocks.emit import Emitter, Index
from gambrel.llm.blocks.norms import add
from gambrel.llm.dims import times
from gambrel.llm.spec import Frames, Patches
from gambrel.workload import Dim, Role


def look_up(e: Emitter, name: str, table_rows: int, rows: Dim, width: int) -> Index:
    """Rows of a table, one a token."""
    with e.inside(name):
        table = e.weight("weight", (table_rows, width), e.precisions.of("embeddings"))
        out = e.activation(rows, width)
        ids = e.tensor((rows,), "int64", role=Role.INPUT, name=f"{name}_ids")
        e.op(
            "embedding",
            (table, ids),
            (out,),
            rows=rows,
            width=width,
            table_rows=table_rows,
            attrs={"mode": "gather"},
        )
    return out


def patches(e: Emitter, p: Patches, images: Dim, hidden: int) -> Index:
    """A convolution whose windows do not overlap, class tokens, positions.

    Returns:
        The tokens of all images.
    """
    side = p.image // p.patch
    kernel = (p.patch, p.patch) if p.frames == 1 else (p.frames, p.patch, p.patch)
    spatial = (side, side) if p.frames == 1 else (1, side, side)
    pixels = times(images, p.channels * p.frames * p.image * p.image)
    with e.inside("patches"):
        image = e.tensor((pixels,), e.precisions.activations, role=Role.INPUT, name="pixel_values")
        inputs = [image, e.weight("weight", (hidden, p.channels, *kernel))]
        if p.bias:
            inputs.append(e.weight("bias", (hidden,)))
        x = e.activation(times(images, side * side), hidden)
        e.op(
            "convolution",
            tuple(inputs),
            (x,),
            batch=images,
            out_channels=hidden,
            in_channels=p.channels,
            groups=1,
            kernel=kernel,
            spatial=spatial,
            attrs={"bias": p.bias},
        )
        rows = times(images, p.tokens)
        if p.extra_tokens:
            extra = e.weight("extra_tokens", (p.extra_tokens, hidden))
            out = e.activation(rows, hidden)
            e.op("copy", (x, extra), (out,), name="cat", attrs={"function": "cat"})
            x = out
    if p.positions:
        table = e.weight("positions.weight", (p.positions, hidden))
        x = add(e, x, table, rows, hidden)
    return x


def frames(e: Emitter, f: Frames, items: Dim, hidden: int) -> Index:
    """Two convolutions over time with three taps, the second with stride 2, and positions.

    Returns:
        The tokens of all items.
    """
    length = 2 * f.positions
    x = e.tensor(
        (items, f.mels, length), e.precisions.activations, role=Role.INPUT, name="input_features"
    )
    for name, width, steps in (("conv1", f.mels, length), ("conv2", hidden, f.positions)):
        with e.inside(name):
            weights = (e.weight("weight", (hidden, width, 3)), e.weight("bias", (hidden,)))
            out = e.activation(times(items, steps), hidden)
            e.op(
                "convolution",
                (x, *weights),
                (out,),
                batch=items,
                out_channels=hidden,
                in_channels=width,
                groups=1,
                kernel=(3,),
                spatial=(steps,),
                attrs={"bias": True},
            )
        x = e.elementwise("gelu", (out,), times(items, steps), hidden)
    table = e.weight("positions.weight", (f.positions, hidden))
    return add(e, x, table, times(items, f.positions), hidden)
