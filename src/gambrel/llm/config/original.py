"""Configurations as the authors of Mamba publish them, without a ``model_type``.

``state-spaces/mamba2-2.7b`` and its siblings say ``d_model``, ``n_layer`` and ``ssm_cfg``; what
they leave out are the defaults of the authors' package (state-spaces/mamba,
``modules/mamba_simple.py`` and ``modules/mamba2.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gambrel.errors import CaptureError
from gambrel.llm.config.fields import Fields

#: Field of such a file that no other configuration has.
_MARK: Final = "ssm_cfg"


def is_original(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is one of these."""
    return "model_type" not in config and _MARK in config and "d_model" in config


def translated(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same in the fields of transformers.

    Raises:
        CaptureError: Layers of attention or feed-forward networks, which have no closed form here,
            or a field of another type.
    """
    f = Fields(config, "mamba")
    inner = f.part(_MARK)
    assert inner is not None  # `is_original` has looked
    if f.whole("d_intermediate", least=0, default=0):
        f.refuse(("d_intermediate",), f.raw("d_intermediate"), "0: layers without feed-forward")
    if f.raw("attn_layer_idx"):
        f.refuse(("attn_layer_idx",), f.raw("attn_layer_idx"), "an empty list: no attention")
    kind = inner.text("layer", default="Mamba1")
    if kind not in _SIZES:
        inner.refuse(("layer",), kind, " or ".join(_SIZES))
    multiple = f.whole("pad_vocab_size_multiple", default=8)
    found: dict[str, Any] = {
        "model_type": "mamba2" if kind == "Mamba2" else "mamba",
        "hidden_size": f.hidden,
        "num_hidden_layers": f.layers,
        "vocab_size": -(-f.vocab // multiple) * multiple,
        "tie_word_embeddings": f.flag("tie_embeddings", default=True),
    }
    for name, (own, default) in _SIZES[kind].items():
        found[name] = inner.whole(own, default=default)
    if kind == "Mamba2":
        channels = found["expand"] * found["hidden_size"]
        if channels % found["head_dim"]:
            raise CaptureError(
                f"the configuration has expand * d_model = {channels}, which "
                f"headdim={found['head_dim']} does not divide."
            )
        found["num_heads"] = channels // found["head_dim"]
    return found


#: Kind of layer → field of transformers → (field of the authors, its default).
_SIZES: Final[dict[str, dict[str, tuple[str, int]]]] = {
    "Mamba1": {
        "state_size": ("d_state", 16),
        "conv_kernel": ("d_conv", 4),
        "expand": ("expand", 2),
    },
    "Mamba2": {
        "state_size": ("d_state", 128),
        "conv_kernel": ("d_conv", 4),
        "expand": ("expand", 2),
        "head_dim": ("headdim", 64),
        "n_groups": ("ngroups", 1),
        "chunk_size": ("chunk_size", 256),
    },
}
