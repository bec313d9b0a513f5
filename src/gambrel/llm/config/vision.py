"""Vision-language models: a text decoder behind a vision tower."""
