"""Models that ``torch.compile`` made: what they were, and the same with visible kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: Makes torch's compiler announce its kernels on the CPU to the profiler.
_VISIBLE: Final = "cpp.enable_kernel_profile"
#: Ops that the compiler may name in one kernel; with fewer, an op of a long chain has no name.
_NAMES: Final = "kernel_name_max_ops"
_MANY: Final = 64


def split(model: Any) -> tuple[Any, Mapping[str, Any] | None]:
    """The module that was compiled, and the settings of torch's own compiler.

    Returns:
        The module itself and None where it was not compiled, or by another compiler than torch's
        default one, whose kernels are those of the framework.
    """
    source = getattr(model, "_orig_mod", model)
    if source is model:
        return model, None
    context = getattr(model, "dynamo_ctx", None)
    return source, getattr(context, "compiler_config", None)


def again(source: Any, settings: Mapping[str, Any]) -> Any:
    """Compiles a module as it was compiled, so that its kernels appear in a profile.

    Args:
        source: The module.
        settings: Of the compiler, as `split` gives them.
    """
    import torch

    known = torch._inductor.config.get_config_copy()
    chosen = {k: v for k, v in settings.items() if k in known and _differs(v, known[k])}
    more = {key: value for key, value in ((_VISIBLE, True), (_NAMES, _MANY)) if key in known}
    return torch.compile(source, options={**chosen, **more})


def _differs(one: Any, other: Any) -> bool:
    """Whether a setting was changed; what cannot be compared was not."""
    return isinstance(one, (bool, int, float, str)) and one != other
