"""What chooses the formula of an op and its constants, on any device: all but its sizes.

Ops of equal traits ask the same of a device, so that many are answered at once.
"""

from __future__ import annotations

import msgspec

from gambrel.analysis.estimate.features import Rule, is_batch_of_weights, rule_of
from gambrel.analysis.estimate.torchlib import rules as torch_rules
from gambrel.ops import OpView


class OpTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What chooses the formula of an op and its constants.

    Attributes:
        kind: Of the op.
        rule: The formula, whatever the framework.
        scheme: Number format or scheme of its constants.
        torch: The formula of PyTorch's own kernels, and its scheme; None where there is none, or
            another framework runs.
        wide: The same where GEMMs of every format were fitted as those in fp32 were.
        batch_of_weights: As `is_batch_of_weights`.
        stored: Number format of the second operand; empty without one.
        operands: Number format of a convolution's operands; empty for other ops.
    """

    kind: str
    rule: Rule
    scheme: str
    torch: tuple[Rule, str] | None
    wide: tuple[Rule, str] | None
    batch_of_weights: bool
    stored: str
    operands: str


def traits_of(view: OpView, *, torch: bool) -> OpTraits:
    """The traits of an op.

    Args:
        view: The op.
        torch: Whether PyTorch's own kernels may run it.

    Raises:
        MixedError: Its sizes are arrays of which some choose another formula than others.
    """
    rule = rule_of(view)
    own = wide = _torch(view, wide_products=False) if torch else None
    if torch and view.kind in torch_rules.WIDE:
        wide = _torch(view, wide_products=True)
    return OpTraits(
        kind=view.kind,
        rule=rule,
        scheme=rule.scheme(view),
        torch=own,
        wide=wide,
        batch_of_weights=is_batch_of_weights(view),
        stored=view.inputs[1].dtype if len(view.inputs) > 1 else "",
        operands=view.operand_dtype(2) if view.kind.startswith("convolution") else "",
    )


def _torch(view: OpView, *, wide_products: bool) -> tuple[Rule, str] | None:
    rule = torch_rules.rule_of(view, wide_products=wide_products)
    return None if rule is None else (rule, rule.scheme(view))
