"""From a ``config.json`` to a `gambrel.llm.spec.ModelSpec`, without torch or transformers."""
