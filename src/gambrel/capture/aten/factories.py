"""Ops that write values that they compute from nothing: constants, ranges, random numbers."""

from __future__ import annotations

from typing import Final

from gambrel.capture.aten.call import Call, Described
from gambrel.capture.aten.registry import by_op, function_of, rule

CONSTANTS: Final = (
    "zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full fill zero arange"
    " range linspace logspace eye scalar_tensor tril_indices triu_indices hann_window"
    " hamming_window blackman_window bartlett_window kaiser_window fft_fftfreq fft_rfftfreq vander"
    " _efficientzerotensor tensor _foreach_zero"
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
_RANDOM_OF: Final = by_op(RANDOM)
_FROM_PROBABILITIES: Final = frozenset({"bernoulli", "multinomial"})


@rule(*(f"aten.{name}" for name in CONSTANTS.split()))
def constant(call: Call) -> Described:
    """Every result written once; a template (``zeros_like(x)``) gives its shape, not its values."""
    sizes = {"elements": sum(t.numel for t in call.outputs)}
    return call.described("fill", sizes, inputs=())


@rule(*_RANDOM_OF)
def random(call: Call) -> Described:
    """One draw a result. Probabilities are read, templates and overwritten tensors are not."""
    function = function_of(call.op, _RANDOM_OF)
    reads = call.inputs if function in _FROM_PROBABILITIES and not call.op.endswith("_") else ()
    return call.described(
        "random", {"elements": call.out.numel}, {"function": function}, inputs=reads
    )
