"""An engine that TensorRT-LLM has built, as the command line that serves it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: Part of an engine's configuration → field → option of ``trtllm-serve``.
_OPTIONS: Final[dict[str, dict[str, str]]] = {
    "mapping": {"tp_size": "--tp_size", "pp_size": "--pp_size", "moe_ep_size": "--ep_size"},
    "build_config": {
        "max_num_tokens": "--max_num_tokens",
        "max_batch_size": "--max_batch_size",
        "max_seq_len": "--max_seq_len",
    },
}


def words_of_engine(config: Any, path: Path) -> list[str] | None:
    """The words that serve an engine with the sizes that it was built for.

    Args:
        config: What its ``config.json`` holds.
        path: Of that file, which describes the model as well.

    Returns:
        None where it is no such file.
    """
    if not isinstance(config, Mapping):
        return None
    inner = config.get("pretrained_config")
    own = inner if isinstance(inner, Mapping) else config
    if "architecture" not in own or not isinstance(own.get("mapping"), Mapping):
        return None
    words = ["trtllm-serve", str(path)]
    for part, options in _OPTIONS.items():
        values = own.get(part) if part == "mapping" else config.get(part)
        for name, option in options.items():
            value = values.get(name) if isinstance(values, Mapping) else None
            if isinstance(value, int) and value > 0:
                words += [option, str(value)]
    return words
