"""Which devices, layout and batch serve a model best under a target, and why not the next one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from gambrel.analysis.settings import Settings
from gambrel.device.model import Device
from gambrel.errors import DeviceError, InputError
from gambrel.llm.collectives import assumptions as of_layout
from gambrel.llm.layouts import candidates, check
from gambrel.llm.precision import Precisions
from gambrel.llm.serving.choice import choose, why_not
from gambrel.llm.serving.evaluate import MOST_DEVICES, Layout, evaluate, refuse
from gambrel.llm.serving.fits import what_fits
from gambrel.llm.serving.place import averaged, place, runtime_of
from gambrel.llm.serving.question import Requests, ServingEngine, Target
from gambrel.llm.serving.records import Choice, OperatingPoint, Plan, Refusal
from gambrel.llm.serving.steps import Setup
from gambrel.llm.sharding import Sharding
from gambrel.llm.spec import ModelSpec
from gambrel.llm.topology import Topology, topology_for
from gambrel.runtimes import runtime
from gambrel.units import format_si
from gambrel.workload import Workload

#: Prompts from this length on are also split over devices (context parallelism).
_LONG: Final = 32_768
#: Choices that are looked at in full.
BEST: Final = 5


def plan(
    spec: ModelSpec,
    devices: Sequence[Device],
    precisions: Sequence[Precisions],
    requests: Requests,
    *,
    max_devices: int = 8,
    target: Target | None = None,
    engine: ServingEngine | None = None,
    settings: Settings | None = None,
    prices: Mapping[str, float] | None = None,
    topology: str | Topology | None = None,
    shardings: Sequence[Sharding] | None = None,
    top: int = BEST,
    name: str = "",
    remarks: Sequence[str] = (),
) -> Plan:
    """Compares every layout, batch, precision and device, and ranks those that meet the target.

    Args:
        spec: The model.
        devices: Kinds of devices to compare.
        precisions: Number formats to compare.
        requests: What is served.
        max_devices: Most devices, all replicas together.
        target: Limits on the latencies.
        engine: How the serving engine is set up.
        settings: Runtime, calibration and the rest; a runtime of None takes each device's default.
        prices: Device id → price of an hour; of none, or of all devices.
        topology: Node and network; None is the usual node of each device.
        shardings: Layouts of one replica; None: all that the model allows.
        top: How many choices to look at in full.
        name: Of the model in command lines; empty is that of its specification.
        remarks: What else is to be said with the assumptions.

    Returns:
        The plan; ``best`` is empty when nothing meets the target, ``refused`` then says what is
        nearest.

    Raises:
        InputError: Requests beyond the model's context, an impossible layout, or no device.
    """
    search = _Search(
        spec=spec,
        devices=devices,
        precisions=precisions,
        asked=requests,
        max_devices=max_devices,
        target=target or Target(),
        engine=engine or ServingEngine(),
        settings=_checked(settings or Settings()),
        prices=dict(prices or {}),
        topology=topology,
        shardings=shardings,
        name=name or spec.name,
        remarks=remarks,
    )
    search.check()
    return search.plan(top)


def pareto(points: Iterable[OperatingPoint]) -> tuple[OperatingPoint, ...]:
    """Points that no other beats both per user and per device, fastest for the user first."""
    from gambrel.engine.pareto import least  # needs numpy, which reports do without

    return least(points, lambda p: (p.tpot_s, -p.tokens_per_s_per_device))


def _checked(settings: Settings) -> Settings:
    """The settings with their runtime by its id; precision and sizes are the plan's.

    Raises:
        UnknownNameError: No such runtime.
    """
    asked = settings.runtime
    name = None if asked is None else runtime(asked).id
    return replace(settings, precision=None, sizes=None, runtime=name)


def check_generates(spec: ModelSpec) -> None:
    """Refuses models that write no tokens.

    Raises:
        InputError: It is an encoder, or has no LM head.
    """
    if not spec.causal or spec.head != "lm":
        raise InputError(f"{spec.name} does not generate tokens: there is nothing to serve so.")


def refusal_of(device: Device, precision: str, layout: Sharding, reason: str) -> Refusal:
    """Why a layout was not planned at all."""
    return Refusal(device=device.id, precision=precision, sharding=layout, reason=reason)


class _Search(msgspec.Struct, frozen=True, kw_only=True):
    """What `plan` was asked; the attributes are its arguments."""

    spec: ModelSpec
    devices: Sequence[Device]
    precisions: Sequence[Precisions]
    asked: Requests
    max_devices: int
    target: Target
    engine: ServingEngine
    settings: Settings
    prices: dict[str, float]
    topology: str | Topology | None
    shardings: Sequence[Sharding] | None
    name: str
    remarks: Sequence[str]

    @property
    def requests(self) -> Requests:
        """The requests as the decoder sees them."""
        return self.asked.decoded(self.spec)

    def plan(self, top: int) -> Plan:
        setups, refused = self._setups()
        if self.settings.runtime is None:
            setups = averaged(setups, self.requests.mean_context, self.requests.source_tokens)
        layouts = [evaluate(s, self.requests, self.target, self.max_devices) for s in setups]
        refused += [x.refusal for x in layouts if x.refusal is not None]
        ranked, over = self._within(sorted((x for x in layouts if x.best), key=self._rank))
        best = self._choices(ranked[:top])
        points = tuple(p for x in layouts for p in x.points if p.devices <= self.max_devices)
        held = any(x.points for x in layouts)
        return Plan(
            model=self.spec.name,
            requests=self.asked,
            target=self.target,
            engine=setups[0].engine if setups else self.engine,
            max_devices=self.max_devices,
            prices=self.prices,
            best=best,
            pareto=pareto(points),
            points=points,
            refused=tuple(sorted((*refused, *over), key=lambda r: r.missed)),
            would_fit=() if held else what_fits(setups, self.requests, self.shardings),
            assumptions=self._assumptions(setups, ranked, best),
        )

    def check(self) -> None:
        """Raises InputError for what cannot be planned."""
        spec, prices = self.spec, self.prices
        self.requests.check(spec)
        if not self.devices:
            raise InputError("a plan needs at least one device.")
        if type(self.max_devices) is not int or not 1 <= self.max_devices <= MOST_DEVICES:
            raise InputError(
                f"max_devices={self.max_devices!r}: give a whole number from 1 to {MOST_DEVICES:,}."
            )
        for name, price in prices.items():
            if not 0 < price < 1e12:
                raise InputError(f"price of {name}={price!r} must be above 0.")
        own = {d.id for d in self.devices}
        if prices and set(prices) != own:
            missing = ", ".join(sorted(own - set(prices))) or "none"
            raise InputError(f"prices are given for some devices only; missing: {missing}.")
        check_generates(spec)

    def _setups(self) -> tuple[list[Setup], list[Refusal]]:
        """Every layout in every format on every device, and what cannot be."""
        setups: list[Setup] = []
        refused: list[Refusal] = []
        built: dict[Any, Workload] = {}
        long = self.requests.new_tokens >= _LONG
        for device in self.devices:
            node = topology_for(device, self.topology)
            layouts = self.shardings or candidates(self.spec, self.max_devices, context=long)
            taken = [p for p in self.precisions if self._runs(device, p, layouts[0], refused)]
            for layout in layouts:
                check(layout, self.spec, self.max_devices)
                for formats in taken:
                    made = self._setup(device, node, layout, formats, built)
                    (setups if isinstance(made, Setup) else refused).append(made)  # type: ignore[arg-type]
        return setups, refused

    def _runs(
        self, device: Device, formats: Precisions, layout: Sharding, refused: list[Refusal]
    ) -> bool:
        """Whether a runtime takes the format on the device; else one refusal for all layouts.

        Raises:
            InputError: There is nothing else to plan.
        """
        try:
            runtime_of(device, self.settings.runtime, formats)
        except InputError as error:
            if len(self.devices) == len(self.precisions) == 1:
                raise
            name = formats.name
            refused.append(refusal_of(device, name, layout, str(error)))
            return False
        return True

    def _setup(
        self,
        device: Device,
        node: Topology,
        layout: Sharding,
        formats: Precisions,
        built: dict[Any, Workload],
    ) -> Setup | Refusal:
        try:
            return place(
                self.spec,
                device,
                layout,
                formats,
                node=node,
                engine=self.engine,
                settings=self.settings,
                built=built,
            )
        except (DeviceError, InputError) as error:
            return refusal_of(device, formats.name, layout, str(error))

    def _rank(self, layout: Layout) -> tuple[float, float, float]:
        """Cheapest tokens first where prices are known; fewest devices where a load is given."""
        point = layout.best
        assert point is not None  # the caller has looked
        if self.prices:
            cost = point.cost_per_million(self.prices[point.device])
            return (cost, point.devices, point.tpot_s)
        if self.requests.per_s is not None or self.requests.concurrency is not None:
            return (point.devices, -point.tokens_per_s, point.tpot_s)
        return (-point.tokens_per_s_per_device, point.tpot_s, point.sharding.replica)

    def _within(self, layouts: Iterable[Layout]) -> tuple[list[Layout], list[Refusal]]:
        """Those that the devices suffice for, and refusals of the others."""
        kept, over, most = [], [], self.max_devices
        for layout in layouts:
            point = layout.best
            assert point is not None  # the caller has looked
            if point.devices <= most:
                kept.append(layout)
                continue
            reason = f"the load needs {point.devices} devices and there are {most}."
            over.append(refuse(layout.setup, reason, point.devices / most - 1))
        return kept, over

    def _choices(self, layouts: Sequence[Layout]) -> tuple[Choice, ...]:
        made: list[Choice] = []
        for layout in layouts:
            choice = choose(layout, self.requests, self.prices, self.name)
            if made:
                choice = msgspec.structs.replace(choice, why_not=why_not(choice, made[-1]))
            made.append(choice)
        return tuple(made)

    def _assumptions(
        self, setups: Sequence[Setup], ranked: Sequence[Layout], best: Sequence[Choice]
    ) -> tuple[str, ...]:
        engine = setups[0].engine if setups else self.engine
        said = [*self.remarks, *_ALWAYS, _ARRIVE[self.requests.arriving]]
        said.append(
            f"chunked prefill is interleaved with decode, up to {engine.step_tokens:,} prompt "
            "tokens per step."
        )
        said += [s for setup in setups[:1] for s in of_engine(setup)]
        if self.requests.source_tokens:
            said.append(
                f"the encoder reads {self.requests.source_tokens:,} tokens of each request in one "
                "pass, whole on every device of a tensor group; the decoder starts with "
                f"{self.requests.input_tokens:,}."
            )
        if engine.speculation:
            said.append(
                f"{engine.speculation.tokens} drafted tokens are kept with probability "
                f"{engine.speculation.acceptance:g} each: {engine.speculation.tokens_per_step:.3g} "
                "tokens per step."
            )
        if any(s.stages > 1 for s in setups):
            said.append(
                "a pipeline works on as many microbatches as it has stages; the stage with most "
                "layers and the head sets the pace."
            )
        for layout in ranked[:1]:
            said += of_layout(layout.setup.sharding, layout.setup.topology, engine.overlap)
        for choice in best[:1]:
            said += choice.decode.assumptions if choice.decode else ()
        return tuple(dict.fromkeys((*said, *self.spec.notes)))


def of_engine(setup: Setup) -> Iterator[str]:
    """What is taken for granted of the serving engine."""
    if setup.mean_of:
        yield (
            f"no serving engine is named: decode steps are the mean of "
            f"{', '.join(setup.mean_of)}; prompts, front end and host times those of "
            f"{setup.mean_of[0]}."
        )
    if setup.service is None and setup.engine.host_s is None:
        yield "scheduler and sampling on the host take no time besides the device's."
    elif setup.host_s or setup.request_host_s:
        each = setup.request_host_s
        more = f" and {format_si(each, 's', 3)} for each request in it" if each else ""
        yield f"a step waits {format_si(setup.host_s, 's', 3)} for the host{more}."
    if setup.service is not None:
        floor, front = setup.overhead.floor_s, setup.overhead.frontend
        spent = f"a request spends {format_si(front.alone_s, 's', 3)} in the front end"
        of_runs = ""
        if setup.engine.frontend_s is None:
            of_runs = (
                f", {format_si(front.token_s, 's', 3)} more for each token of its prompt and up to "
                f"{format_si(front.beside_s, 's', 3)} beside others (fitted to served runs)"
            )
        if setup.engine.offline:
            spent = "requests pass no server and answers are not streamed"
        most = setup.overhead.graph_tokens
        long = f" and more than {most:,} in all" if most else ""
        steps = "all steps" if setup.engine.eager else f"steps with prompt tokens{long}"
        alone = setup.overhead.alone
        or_less = "" if alone == floor else f" ({format_si(alone, 's', 3)} with no request beside)"
        yield (
            f"{steps} are launched kernel by kernel and take at least "
            f"{format_si(floor, 's', 3)}{or_less}; {spent}{of_runs}."
        )
    lora = setup.engine.lora
    if lora is not None:
        yield (
            f"{lora.count} LoRA adapters of rank {lora.rank} on every linear layer but routers and "
            "experts; rows of a batch use them evenly; their kernels as those of experts."
        )
    if setup.engine.host_cache_bytes is not None:
        yield "cached prefixes are read back over the host link before a prompt runs, beside steps."


_ALWAYS: Final = (
    "TPOT is (total - TTFT) / (output - 1), the mean over an answer; TTFT is prefill + queue.",
    "requests are alike, as many in flight as the batch says.",
)
#: What is said of each way in which requests come.
_ARRIVE: Final = {
    "closed": "a request that ends is replaced at once.",
    "burst": "all requests in flight come together and stay together: no decode step has prompts.",
    "poisson": "requests come at random.",
    "offline": "all requests wait from the start; one that ends is replaced at once.",
}
