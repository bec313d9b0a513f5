"""From a ``config.json`` to a `gambrel.llm.spec.ModelSpec`, without torch or transformers."""

from gambrel.llm.config.read import is_known, known_types, read_config

__all__ = ["is_known", "known_types", "read_config"]
