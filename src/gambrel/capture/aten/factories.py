"""Ops that write values that they compute from nothing: constants, ranges, random numbers."""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten.call import Call, Described, flatten
from gambrel.capture.aten.registry import rule

CONSTANTS: Final = (
    "zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full fill zero arange"
    " range linspace logspace eye scalar_tensor tril_indices triu_indices hann_window"
    " hamming_window blackman_window bartlett_window kaiser_window fft_fftfreq fft_rfftfreq vander"
    " _efficientzerotensor tensor"
)
RANDOM: Final[dict[str, str]] = {
    "uniform": "rand rand_like uniform",
    "normal": "randn randn_like normal normal_functional",
    "integers": "randint randint_like random",
    "permutation": "randperm",
    "bernoulli": "bernoulli",
    "exponential": "exponential",
    "multinomial": "multinomial",
}
_RANDOM_OF: Final = {f"aten.{op}": f for f, names in RANDOM.items() for op in names.split()}


def constant(call: Call) -> Described:
    """Every result written once; a template (``zeros_like(x)``) gives its shape, not its values."""
    sizes = {"elements": sum(t.numel for t in call.outputs)}
    return call.described("fill", sizes, inputs=())


def random(call: Call) -> Described:
    """One draw a result. Probabilities are read, templates and overwritten tensors are not."""
    function = _RANDOM_OF.get(call.op) or _RANDOM_OF[call.op.rstrip("_")]
    reads = call.inputs if function in _FROM_PROBABILITIES and not call.op.endswith("_") else ()
    return call.described(
        "random", {"elements": call.out.numel}, {"function": function}, inputs=reads
    )


@rule("aten._foreach_zero")
def listed_zero(call: Call) -> Described:
    """A list of tensors overwritten with zeros."""
    written = tuple(flatten(call.arg(0)))
    return call.described(
        "fill", {"elements": sum(t.numel for t in written)}, inputs=(), outputs=written
    )


_FROM_PROBABILITIES: Final = frozenset({"bernoulli", "multinomial"})
for _op in CONSTANTS.split():
    rule(f"aten.{_op}")(constant)
for _op in _RANDOM_OF:
    rule(_op)(random)
