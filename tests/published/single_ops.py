"""Single PyTorch ops as workloads, without capturing anything."""

from __future__ import annotations

from gambrel.workload import Op, Role, Tensor, Workload

#: Functions of one tensor, and of two; ``...u`` takes a number as its second operand.
UNARY = {"relu": "relu", "gelu": "gelu", "tanh": "tanh"}
UNARY |= {"addu": "add", "mulu": "mul", "divu": "div", "powu": "pow"}
BINARY = {"add", "mul", "div", "pow"}


def single_op(name: str, sizes: dict[str, int]) -> Workload:
    """The workload of one fp32 op: every operand is an input, the result the output."""
    inputs, output, op = _described(name, sizes)
    shapes = [*inputs, output]
    tensors = tuple(
        Tensor(
            shape=shape,
            dtype="fp32",
            storage=i,
            role=Role.OUTPUT if i == len(inputs) else Role.INPUT,
        )
        for i, shape in enumerate(shapes)
    )
    last = len(inputs)
    placed = Op(inputs=tuple(range(last)), outputs=(last,), name=name, **op)
    return Workload(name=name, dtype="fp32", tensors=tensors, ops=(placed,), outputs=(last,))


def _described(name, s):
    """Shapes of the inputs, shape of the output, and what the op needs."""
    if name in ("linear", "bmm"):
        return _matmul(name, s)
    if name == "conv":
        return _convolution(s)
    rows, width = s["b"], s["h"]
    shape, n = (rows, width), rows * width
    if name == "softmax":
        return [shape], shape, {"kind": "softmax", "sizes": {"elements": n, "rows": rows}}
    if name == "ln":
        sizes = {"elements": n, "groups": rows}
        attrs = {"function": "layer_norm", "affine": True}
        op = {"kind": "normalization", "sizes": sizes, "attrs": attrs}
        return [shape, (width,), (width,)], shape, op
    function = UNARY.get(name, name)
    op = {"kind": "elementwise", "sizes": {"elements": n}, "attrs": {"function": function}}
    return [shape] * (2 if name in BINARY else 1), shape, op


def _matmul(name, s):
    b, m, n, k = s["b"], s["m"], s["n"], s["k"]
    op = {"kind": "matmul", "sizes": {"b": b, "m": m, "n": n, "k": k}}
    if name == "linear":
        return [(b, m, k), (n, k), (n,)], (b, m, n), {**op, "attrs": {"bias": True}}
    return [(b, m, k), (b, k, n)], (b, m, n), op


def _convolution(s):
    side = (s["image"] + 2 * s["padding"] - s["kernel"]) // s["stride"] + 1
    op = {
        "kind": "convolution",
        "sizes": {
            "batch": s["b"],
            "out_channels": s["out"],
            "in_channels": s["in"],
            "kernel": (s["kernel"], s["kernel"]),
            "spatial": (side, side),
        },
    }
    image = (s["b"], s["in"], s["image"], s["image"])
    weight = (s["out"], s["in"], s["kernel"], s["kernel"])
    return [image, weight], (s["b"], s["out"], side, side), op
