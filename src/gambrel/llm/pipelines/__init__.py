"""Several models run one after the other for one result: text encoders, a sampler, a decoder."""

from gambrel.llm.pipelines.compose import Part, compose, with_fixed

__all__ = ["Part", "compose", "with_fixed"]
