"""What the tools that plan return. Every number says its unit; null is unknown, never zero."""

from __future__ import annotations

from pydantic import BaseModel, Field

from gambrel.mcp.outputs import COMMAND, Expected, number


class MemoryOut(BaseModel):
    """Memory of one device while it serves."""

    capacity_bytes: int | None = number("Of the device; null when unknown", "byte")
    usable_bytes: float = number("The share that the engine may use", "byte")
    weights_bytes: float = number("Weights", "byte")
    activations_bytes: float = number("Intermediates of the largest step", "byte")
    sequence_bytes: float = number("Cache that one request reserves at its end", "byte")
    max_sequences: int = number("Requests that fit", "requests")


class ServingPointOut(BaseModel):
    """One way to serve: a device, a layout, formats, and how many requests are in flight."""

    device: str = Field(description="Id of the device.")
    precision: str
    layout: str = Field(
        description="E.g. TP4 PP2: devices that share each layer, stages, replicas and so on."
    )
    devices: int = number("All devices of all replicas", "devices")
    batch: int = number("Requests in flight, one replica", "requests")
    tpot_s: float = number("Time per output token after the first", "s")
    interference_s: float = number("Part of it that prompts of others take", "s")
    ttft_s: float = number("Time to first token: prefill + queue", "s")
    prefill_s: float = number("A prompt alone", "s")
    queue_s: float = number("Waiting before it, by a queueing model", "s")
    burst_ttft_s: float = number("Mean time to first token when all arrive together", "s")
    requests_per_s: float = number("Answers, all replicas", "1/s")
    tokens_per_s: float = number("Output tokens, all replicas", "token/s")
    tokens_per_s_per_device: float = number("Output tokens of a device", "token/s")
    tokens_per_s_per_user: float | None = number(
        "Output tokens of one request; null for answers of one token", "token/s"
    )
    runtime: str = Field(description="Id of the serving engine.")
    sol_tpot_s: float | None = number("Speed of light of a token: no run is faster", "s")
    sol_ttft_s: float | None = number("Speed of light of a prompt: no run is faster", "s")
    batch_limit: str = Field(description="Why no more are in flight: memory, tpot, ttft ...")
    memory: MemoryOut


class ServingChoiceOut(ServingPointOut):
    """A point that keeps the promise, with its ranges."""

    tpot: Expected | None = Field(description="Time per output token with its range.")
    ttft: Expected | None = Field(description="Time to first token with its range.")
    roofline_tpot_s: float | None = number("The decode step by the roofline, op by op", "s")
    bound: str | None = Field(description="The roofline's verdict on a decode step.")
    limited_by: str | None = Field(description="What takes most of its expected time.")
    max_batch: int = number("Requests that fit into a replica at full length", "requests")
    max_context: int = number("Tokens of a request that fit at this batch", "tokens")
    energy_j_per_token: float | None = number("Of an output token, all devices", "J")
    cost_per_million: float | None = number(
        "Of 1e6 output tokens; null without a price", "currency of the caller"
    )
    why_not: str = Field(description="Why the one before it is better; empty for the first.")


class RefusalOut(BaseModel):
    """A layout that cannot be, or does not keep the promise."""

    device: str
    precision: str
    layout: str
    reason: str


class ServingPlanOut(BaseModel):
    """How to serve a language model."""

    command: str = COMMAND
    model: str
    best: list[ServingChoiceOut] = Field(description="Best first; empty when none keeps it.")
    pareto: list[ServingPointOut] = Field(
        description="Points that no other beats for one user and for a device at once."
    )
    refused: list[RefusalOut] = Field(description="The nearest first.")
    left_out: int = number("Refused layouts and points that are not listed", "rows")
    assumptions: list[str]


class CachePartOut(BaseModel):
    """Layers whose caches are alike."""

    name: str
    layers: int = number("Layers", "layers")
    bytes_per_token: float = number("Of one layer; 0 for a state", "byte")
    tokens: int = number("Tokens of a sequence that are needed; 0 for a state", "tokens")
    allocated_tokens: int = number("Tokens of a sequence that are reserved", "tokens")
    logical_bytes: float = number("Needed, all layers and sequences", "byte")
    allocated_bytes: float = number("Reserved, all layers and sequences", "byte")


class RoomOut(BaseModel):
    """What fits beside weights and activations."""

    free_bytes: float = number("Left for the cache", "byte")
    batch: int = number("Most sequences of this context", "sequences")
    context: int = number("Most tokens of a sequence at this batch", "tokens")
    model_limit: int | None = number("The model's own limit; null without one", "tokens")
    sequence_bytes: float = number("Reserved by one sequence", "byte")


class CacheOut(BaseModel):
    """The key/value cache of a language model."""

    command: str = COMMAND
    model: str
    batch: int = number("Sequences", "sequences")
    context: int = number("Tokens of each", "tokens")
    precision: str = Field(description="Format of keys and values.")
    logical_bytes: float = number("What attention reads", "byte")
    allocated_bytes: float = number("What an engine reserves, in pages", "byte")
    parts: list[CachePartOut]
    weights_bytes: float = number("Of the model", "byte")
    activations_bytes: float = number("Of a decode step", "byte")
    device: str = Field(description="Id; empty when none was given.")
    usable_bytes: float | None = number("Memory that the engine may use", "byte")
    fits: bool | None = Field(description="Whether all of it fits; null without a device.")
    room: RoomOut | None = Field(description="What fits; null without a device.")
