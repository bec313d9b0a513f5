"""XLA's own count beside ours: ``python benchmarks/xla_costs.py``.

``jax.jit(f).lower(...).compile().cost_analysis()`` counts the flops of the program that XLA made
for this machine's CPU. It is not the work of the function: a loop's body counts once, functions
such as exp count one flop or none, and what XLA simplified is gone. The table has both counts and
what explains the difference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import gambrel
from gambrel.capture.jax.capture import capture_jax

S, F32 = jax.ShapeDtypeStruct, jnp.float32
NHWC = ("NHWC", "HWIO", "NHWC")


def cnn(params: Any, x: Any) -> Any:
    for w in params["convolutions"]:
        x = jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=NHWC)
        x = jax.nn.relu(x)
    return x.mean((1, 2)) @ params["head"]


def norm(x: Any, scale: Any) -> Any:
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale


def layer(p: Any, x: Any) -> Any:
    y = norm(x, p["scale"])
    q, k, v = (jnp.einsum("btd,dhk->bthk", y, p[n]) for n in "qkv")
    y = jax.nn.dot_product_attention(q, k, v, is_causal=p.get("causal", True))
    x = x + jnp.einsum("bthk,hkd->btd", y, p["o"])
    return x + jax.nn.gelu(norm(x, p["scale"]) @ p["up"]) @ p["down"]


def transformer(params: Any, x: Any) -> Any:
    for p in params:
        x = layer(p, x)
    return x


def scanned(params: Any, x: Any) -> Any:
    return jax.lax.scan(lambda c, p: (layer(p, c), None), x, params)[0]


def mamba(params: Any, x: Any, d: Any, b: Any, c: Any) -> Any:
    def step(h: Any, given: Any) -> Any:
        x, d, b, c = given
        h = jnp.exp(d[:, None] * params["a"]) * h + (d * x)[:, None] * b[None]
        return h, h @ c

    return jax.lax.scan(step, jnp.zeros(params["a"].shape), (x, d, b, c))[1]


def experts(params: Any, x: Any) -> Any:
    """Eight experts, two a token, rows sorted by expert."""
    weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ params["router"]), 2)
    order = jnp.argsort(chosen.reshape(-1))
    rows = jnp.take(x, order // 2, axis=0)
    sizes = jnp.bincount(chosen.reshape(-1), length=8)
    y = jax.nn.silu(jax.lax.ragged_dot(rows, params["up"], sizes))
    y = jax.lax.ragged_dot(y, params["down"], sizes) * weights.reshape(-1)[order][:, None]
    return jnp.zeros_like(x).at[order // 2].add(y)


def one_layer(width: int, heads: int) -> dict[str, Any]:
    inner = {n: S((width, heads, width // heads), F32) for n in "qkv"}
    return {
        "scale": S((width,), F32),
        **inner,
        "o": S((heads, width // heads, width), F32),
        "up": S((width, 4 * width), F32),
        "down": S((4 * width, width), F32),
    }


LAYER = one_layer(256, 8)
CNN = {
    "convolutions": [S((3, 3, a, b), F32) for a, b in ((3, 32), (32, 64), (64, 128))],
    "head": S((128, 10), F32),
}
EXPERTS = {
    "router": S((64, 8), F32),
    "up": S((8, 64, 256), F32),
    "down": S((8, 256, 64), F32),
}
TOKENS, CHANNELS, STATE = 64, 128, 16


def loss(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.grad(lambda p, x: (function(p, x) ** 2).sum())


CASES: list[tuple[str, Callable[..., Any], tuple[Any, ...], str]] = [
    (
        "CNN, three convolutions",
        cnn,
        (CNN, S((4, 64, 64, 3), F32)),
        "taps in the padding: counted here, left out there; relu and means are theirs alone",
    ),
    (
        "its gradient",
        loss(cnn),
        (CNN, S((4, 64, 64, 3), F32)),
        "zeros between the elements of a dilated gradient: skipped here",
    ),
    (
        "transformer, two layers",
        transformer,
        ([LAYER, LAYER], S((2, 128, 256), F32)),
        "causal attention: the visible half of the pairs here, all of them there",
    ),
    (
        "the same, scanned",
        scanned,
        (
            {k: S((2, *v.shape), v.dtype) for k, v in LAYER.items()},
            S((2, 128, 256), F32),
        ),
        "the body counts twice here, once there",
    ),
    (
        "gradient of two layers",
        loss(transformer),
        ([LAYER, LAYER], S((2, 128, 256), F32)),
        "element-wise work is theirs alone; attention is written out in both",
    ),
    (
        "selective scan (Mamba)",
        mamba,
        (
            {"a": S((CHANNELS, STATE), F32)},
            *(S((TOKENS, n), F32) for n in (CHANNELS, CHANNELS, STATE, STATE)),
        ),
        f"the body counts {TOKENS} times here, once there",
    ),
    (
        "mixture of 8 experts, 2 a token",
        experts,
        (EXPERTS, S((32, 64), F32)),
        "a ragged product: each row with its expert here; XLA's CPU fallback masks and "
        "multiplies every row with every expert",
    ),
]


def main() -> None:
    """Prints the table and writes it."""
    lines = [
        "| function | matrix FLOP | other FLOP | XLA's flops | XLA / matrix | why they differ |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for name, function, args, why in CASES:
        total = gambrel.analyze(capture_jax(function, args), "a100").total
        ours, rest = total.matrix_flops, total.vector_flops
        theirs = jax.jit(function).lower(*args).compile().cost_analysis()["flops"]
        lines.append(
            f"| {name} | {ours:,} | {rest:,} | {theirs:,.0f} | {theirs / ours:.3f} | {why} |"
        )
    head = "# XLA's cost analysis beside ours\n\n`python benchmarks/xla_costs.py`, "
    text = head + f"JAX {jax.__version__}, CPU.\n\n" + "\n".join(lines) + "\n"
    sys.stdout.write(text)
    (Path(__file__).parent / "results" / "xla_costs.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
