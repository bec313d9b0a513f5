"""Constants of whole runs on NPUs: what is stored of a chip, and of chips without measurements."""

from __future__ import annotations

import msgspec

from gambrel.analysis.estimate.held_out import HeldOut


class Flight(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of a chip whose processor prepares some while others are computed.

    A call costs what it costs alone where nothing follows it. Where several are in flight the
    slower of processor and chip sets the pace, and the memory is shared.

    Attributes:
        inputs: Of a call, which has as many units of its own; with fewer the others are idle.
        calls: That the chip computes at the same time, each on a core of its own.
        fed: Calls whose bytes the memory delivers as fast together as those of one alone.
        hosts: Calls that the processor prepares at the same time.
        kept_bytes: Activations of an input that pass from group to group on chip.
    """

    inputs: int
    calls: int
    fed: float
    hosts: int
    kept_bytes: int = 0


class TiledConstants(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of one chip under one runtime; see `gambrel.analysis.estimate.tiled`.

    Attributes:
        runtime: Name under which the runtime's TOML lists them.
        device: Id of the chip.
        start_s: Fixed time of an inference, by number format.
        macs_per_s: Padded multiply-adds per second, by number format.
        vector_per_s: Work of the vector unit, in elements of 16 bits per second.
        softmax_per_s: The same of softmaxes; None: they run at that rate. On old chips the
            processor computes them, with the products that surround them.
        activation_byte_per_s: Activations between groups.
        ahead_byte_per_s: Weights and model inputs.
        handed_per_s: Elements of inputs that the host hands over per second; None: it was not told
            apart from the fixed time.
        cores: That a single input is spread over, and that there are, of chips whose cores take
            inputs by themselves where there are enough; None: all work on any input.
        streamed: They are fitted to rates with frames in flight, and so is what they predict.
        flight: Of chips whose calls overlap; None: inputs at once are one call.
        call_s: What a call from a host took at most beside, s: the slow end of the range has it.
        rows: Measured runs behind them.
        models: Different models among these.
        low: Lower end of measured / predicted.
        high: Upper end.
        attention_high: Upper end for networks of blocks of attention, whose exports differ more;
            None: the same.
        room_bytes: Most activations of a product or a sum that stay on a chip whose other memory
            was hardly measured; None: all do, or its rate is known.
        outside_high: Upper end for networks with more.
        confidence: ``high``, ``medium`` or ``low``.
        note: What else a reader should know, as a clause.
        held_out: Errors on models that were not fitted; None for a user's own.
    """

    runtime: str
    device: str
    start_s: dict[str, float]
    macs_per_s: dict[str, float]
    vector_per_s: float
    activation_byte_per_s: float
    ahead_byte_per_s: float
    rows: int
    models: int = 0
    low: float
    high: float
    confidence: str = "medium"
    note: str = ""
    softmax_per_s: float | None = None
    handed_per_s: float | None = None
    attention_high: float | None = None
    room_bytes: float | None = None
    outside_high: float | None = None
    cores: tuple[int, int] | None = None
    streamed: bool = False
    flight: Flight | None = None
    call_s: float = 0.0
    held_out: HeldOut | None = None

    def of_attention(self) -> TiledConstants:
        """The same for networks of blocks of attention."""
        if self.attention_high is None:
            return self
        high = max(self.high, self.attention_high)
        return msgspec.structs.replace(self, high=high, confidence="low")

    def of_outside(self) -> TiledConstants:
        """The same for networks whose activations leave the chip."""
        high = max(self.high, self.outside_high or 0.0)
        return msgspec.structs.replace(self, high=high, confidence="low")

    @property
    def softmax_rate(self) -> float:
        """Work of softmaxes per second."""
        return self.vector_per_s if self.softmax_per_s is None else self.softmax_per_s


class TiledClass(msgspec.Struct, frozen=True, kw_only=True):
    """How the constants of a chip follow from its datasheet: medians over measured chips.

    Attributes:
        runtime: As in `TiledConstants`; with it goes the class of chips.
        int8_share: Padded multiply-adds in int8, relative to the quoted rate (two operations each).
        formats: Rate of each other format relative to int8.
        ahead_share: Bandwidth for weights, relative to the memory's.
        activation_share: Bandwidth for activations, relative to the memory's.
        vector_share: Elements of the vector unit per multiply-add in int8.
        softmax_share: Softmaxes, relative to other work of the vector unit; None: the same rate.
        start_s: Fixed time of an inference, by number format.
        handed_per_s: As in `TiledConstants`.
        chips: Number of chips behind the medians.
        low: Lower end of measured / predicted, over chips that were left out.
        high: Upper end.
        error: Mean absolute error over the same; None where there were too few chips to tell.
    """

    runtime: str
    int8_share: float
    formats: dict[str, float]
    ahead_share: float
    activation_share: float
    vector_share: float
    start_s: dict[str, float]
    chips: int
    low: float
    high: float
    softmax_share: float | None = None
    handed_per_s: float | None = None
    error: float | None = None


class StreamConstants(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of a chip that maps a network onto itself and streams frames through it.

    See `gambrel.analysis.estimate.stream`.

    Attributes:
        runtime: Name under which the runtime's TOML lists them.
        device: Id of the chip.
        window_per_s: Multiply-adds of windows of several taps per second.
        point_per_s: Of single taps, linear layers and attention.
        depthwise_per_s: Of one channel per group.
        norm_per_s: Elements of norms and softmaxes.
        output_per_s: Elements that layers write.
        pool_per_s: Elements that poolings write.
        frame_s: Fixed time of a frame.
        held_weights: Weights that the chip holds at once.
        held_stages: Layers, poolings and joins that it holds at once.
        move_frame_s: Time that each change of layout adds to a frame where a network is cut.
        passed_per_s: Elements of inputs and outputs of a frame where a network is cut; None: they
            pass while the chip computes, as on chips that have no DRAM of their own.
        switch_per_s: Weights loaded when the next part of a network takes its place.
        norm_s: Time of a norm or softmax in such a change.
        move_s: Time of a change of layout in such a change.
        layer_s: Time of a layer in such a change.
        rows: Measured rates behind them.
        models: Different models among these.
        low: Lower end of measured / predicted, from eight frames on.
        high: Upper end.
        low_few: Lower end for fewer frames, where it matters more whether a network is cut.
        high_few: Upper end.
        confidence: ``high``, ``medium`` or ``low``.
        note: Whose constants these are where nothing was measured on the chip.
        held_out: Errors on models that were not fitted.
    """

    runtime: str
    device: str
    window_per_s: float
    point_per_s: float
    depthwise_per_s: float
    norm_per_s: float
    output_per_s: float
    pool_per_s: float
    frame_s: float
    held_weights: float
    held_stages: float
    move_frame_s: float
    passed_per_s: float | None
    switch_per_s: float
    norm_s: float
    move_s: float
    layer_s: float
    rows: int
    models: int = 0
    low: float
    high: float
    low_few: float
    high_few: float
    confidence: str = "low"
    note: str = ""
    held_out: HeldOut | None = None
