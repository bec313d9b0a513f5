"""The tools: each parses what an agent asks, calls one function and returns its result."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from gambrel.errors import GambrelError, InputError
from gambrel.mcp import convert, lookup, planning
from gambrel.mcp import inputs as given
from gambrel.mcp import outputs as out

_METRICS: Final = ("latency", "throughput", "power", "efficiency", "memory")
#: ``file.py:function`` and ``package.module:Class`` would run code.
_CODE: Final = re.compile(r"^(?:.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*$")


class Tools:
    """The functions that the server offers.

    Args:
        trust: Whether models may be code that is run (``file.py:function``).
    """

    def __init__(self, *, trust: bool = False) -> None:
        self._trust = trust

    def all(self) -> tuple[Callable[..., Any], ...]:
        """Every tool, ready to be registered; the docstring is what an agent reads."""
        methods: tuple[Callable[..., Any], ...] = (
            self.analyze,
            self.recommend,
            self.what_if,
            self.check,
            self.compare,
            self.select,
            planning.serve_plan,
            planning.kv_cache,
            lookup.hardware,
            lookup.models,
            lookup.explain,
        )
        return tuple(_told(method) for method in methods)

    def analyze(
        self,
        model: given.Model,
        hardware: given.Hardware,
        batch: given.Batch = None,
        precision: given.Precision = None,
        sizes: given.Sizes = None,
        phase: given.Phase = None,
        runtime: given.Runtime = None,
        sparse: given.Sparse = False,
        engine: given.Engine = None,
        top: given.Top = 10,
    ) -> out.AnalysisOut:
        """Where a model stands under a device's roofline: work, traffic, bound, expected time."""
        question = self._question(model, batch, precision, sizes, phase, runtime, sparse, engine)
        from gambrel.api.analyze import analyze

        found = analyze(model, hardware, **question)
        asked = _command("analyze", model, question, hardware=hardware)
        return convert.analysis_out(found, asked, top)

    def recommend(
        self,
        model: given.Model,
        hardware: given.Hardware,
        batch: given.Batch = None,
        precision: given.Precision = None,
        sizes: given.Sizes = None,
        phase: given.Phase = None,
        runtime: given.Runtime = None,
        sparse: given.Sparse = False,
        engine: given.Engine = None,
    ) -> out.AdviceOut:
        """What to change and by how much it would help: each change applied and analyzed again."""
        question = self._question(model, batch, precision, sizes, phase, runtime, sparse, engine)
        from gambrel.advise.recommend import advise
        from gambrel.analysis.estimate.store import load
        from gambrel.api.analyze import analyze

        found = analyze(model, hardware, **question)
        advice = advise(found, load())
        return out.AdviceOut(
            command=_command("analyze", model, question, hardware=hardware, recommend=True),
            model=convert.texts([found.model.name])[0],
            hardware=found.hardware.id,
            precision=found.model.precision,
            sizes=dict(found.model.symbols),
            recommendations=[
                out.RecommendationOut.model_validate(convert.plain(r))
                for r in advice.recommendations
            ],
            attained=advice.attained,
            stop=advice.stop,
            below=[out.BelowOut.model_validate(convert.plain(b)) for b in advice.below],
            hints=convert.texts(advice.hints),
        )

    def what_if(
        self,
        model: given.Model,
        hardware: given.Hardware,
        changes: Annotated[
            list[str],
            Field(
                min_length=1,
                description="E.g. precision=int8, fuse, batch=8, weights=int4, hardware=h200.",
            ),
        ],
        batch: given.Batch = None,
        precision: given.Precision = None,
        sizes: given.Sizes = None,
        phase: given.Phase = None,
        runtime: given.Runtime = None,
        sparse: given.Sparse = False,
        engine: given.Engine = None,
        top: given.Top = 10,
    ) -> out.WhatIfOut:
        """The same question with changes: both answers, and where they differ."""
        question = self._question(model, batch, precision, sizes, phase, runtime, sparse, engine)
        from gambrel.api.advise import what_if

        found = what_if(model, hardware, changes, **question)
        return out.WhatIfOut(
            command=_command("what-if", model, question, hardware=hardware, change=changes),
            model=convert.texts([found.model])[0],
            changes=list(found.changes),
            about=found.about,
            before=convert.side_out(found.before),
            after=convert.side_out(found.after),
            gain=found.gain,
            gain_kind=found.gain_kind,
            by_kind=[convert.difference_out(d) for d in found.kinds],
            ops=[convert.difference_out(d) for d in found.ops[:top]],
            notes=convert.texts(found.notes),
        )

    def check(
        self,
        model: given.Model,
        hardware: given.Hardware,
        latency: given.Latency = None,
        throughput: given.Throughput = None,
        power: given.Power = None,
        energy: given.Energy = None,
        memory: given.Memory = None,
        batch: given.Batch = None,
        precision: given.Precision = None,
        sizes: given.Sizes = None,
        phase: given.Phase = None,
        runtime: given.Runtime = None,
        sparse: given.Sparse = False,
        engine: given.Engine = None,
    ) -> out.CheckOut:
        """Whether a model on a device meets limits, and for a FAIL what would make it pass."""
        question = self._question(model, batch, precision, sizes, phase, runtime, sparse, engine)
        limits = _limits(latency, throughput, power, energy, memory)
        from gambrel.api.advise import check

        found = check(model, hardware, **limits, **question)
        data = convert.plain(found)
        data["notes"] = convert.texts(found.notes)
        data["model"] = convert.texts([found.model])[0]
        data["command"] = _command("check", model, question, hardware=hardware, **limits)
        return out.CheckOut.model_validate(data)

    def compare(
        self,
        models: Annotated[list[given.Model], Field(min_length=1, description="Models.")],
        hardware: Annotated[
            list[given.Hardware],
            Field(description="Devices; an empty list takes the whole catalog."),
        ],
        metrics: Annotated[
            list[given.Metric], Field(min_length=1, description="The first one sorts.")
        ] = list(_METRICS),  # noqa: B006 pydantic copies it
        precisions: Annotated[
            list[str], Field(description="Number formats; empty takes each device's own.")
        ] = [],  # noqa: B006
        batches: Annotated[
            list[Annotated[int, Field(ge=1)]],
            Field(
                description="Items at once, unit: items; empty takes each model's own.",
                json_schema_extra={"unit": "items"},
            ),
        ] = [],  # noqa: B006
        prices: given.Prices = None,
        sizes: given.Sizes = None,
        phase: given.Phase = None,
        runtime: given.Runtime = None,
        sparse: given.Sparse = False,
        engine: given.Engine = None,
        top: given.Top = 20,
    ) -> out.ComparisonOut:
        """Models on devices in precisions and at batches, best first; unknown stays unknown."""
        for model in models:
            self._refuse_code(model)
        from gambrel.api.advise import compare

        found = compare(
            list(models),
            list(hardware) or None,
            metric=list(metrics),
            precision=precisions or None,
            batch_size=batches or None,
            prices=prices,
            sizes=sizes,
            phase=phase,
            runtime=runtime,
            sparsity=sparse,
            engine=engine,
            trust=self._trust,
        )
        return out.ComparisonOut(
            command=convert.command(
                "compare",
                ",".join(models),
                hardware=",".join(hardware) or "all",
                metric=",".join(metrics),
                precision=",".join(precisions),
                batch=",".join(map(str, batches)),
                price=prices,
                size=sizes,
                phase=phase,
                runtime=runtime,
                sparse=sparse,
                engine=engine,
            ),
            metrics=list(found.metrics),
            rows=[convert.row_out(row, found.metrics) for row in found.rows[:top]],
            left_out=max(len(found.rows) - top, 0),
            notes=convert.texts(found.notes),
        )

    def select(
        self,
        model: given.Model,
        latency: given.Latency = None,
        throughput: given.Throughput = None,
        power: given.Power = None,
        energy: given.Energy = None,
        memory: given.Memory = None,
        max_price: Annotated[
            float | None,
            Field(
                description="At most; unit: the currency of `prices`.",
                json_schema_extra={"unit": "currency of the caller"},
            ),
        ] = None,
        prices: given.Prices = None,
        hardware: Annotated[
            list[given.Hardware],
            Field(description="Devices to choose from; empty takes the whole catalog."),
        ] = [],  # noqa: B006
        sort: given.Metric | None = None,
        precisions: Annotated[
            list[str],
            Field(description="Number formats of which each device takes the best that it has."),
        ] = [],  # noqa: B006
        batch: given.Batch = None,
        sizes: given.Sizes = None,
        phase: given.Phase = None,
        runtime: given.Runtime = None,
        sparse: given.Sparse = False,
        engine: given.Engine = None,
        top: given.Top = 10,
    ) -> out.SelectionOut:
        """The devices on which a model meets limits; unknowns and near misses stand apart."""
        self._refuse_code(model)
        limits = _limits(latency, throughput, power, energy, memory)
        from gambrel.api.advise import select

        found = select(
            model,
            list(hardware) or None,
            **limits,
            max_price=max_price,
            prices=prices,
            sort=sort,
            precision=precisions or None,
            batch_size=batch,
            sizes=sizes,
            phase=phase,
            runtime=runtime,
            sparsity=sparse,
            engine=engine,
            trust=self._trust,
        )
        metrics = list(dict.fromkeys([*(limit.metric for limit in found.limits), found.sort]))
        groups = {
            name: [convert.candidate_out(c, metrics) for c in group[:top]]
            for name, group in _groups(found)
        }
        return out.SelectionOut(
            command=convert.command(
                "select",
                model,
                **limits,
                max_price=max_price,
                price=prices,
                hardware=",".join(hardware),
                sort=sort,
                precision=",".join(precisions),
                batch=batch,
                size=sizes,
                phase=phase,
                runtime=runtime,
                sparse=sparse,
                engine=engine,
            ),
            model=convert.texts([found.model])[0],
            limits=[limit.text for limit in found.limits],
            sort=found.sort,
            failed=list(found.failed),
            left_out=sum(max(len(group) - top, 0) for _, group in _groups(found)),
            notes=convert.texts(found.notes),
            **groups,
        )

    def _question(
        self,
        model: str,
        batch: int | None,
        precision: str | None,
        sizes: dict[str, int] | None,
        phase: str | None,
        runtime: str | None,
        sparse: bool,
        engine: str | None,
    ) -> dict[str, Any]:
        """The arguments of `gambrel.analyze`."""
        self._refuse_code(model)
        return {
            "batch_size": batch,
            "precision": precision,
            "sizes": sizes or {},
            "phase": phase,
            "runtime": runtime,
            "sparsity": sparse,
            "engine": engine,
            "trust": self._trust,
        }

    def _refuse_code(self, model: str) -> None:
        if not self._trust and _CODE.match(model):
            raise InputError(
                f"{model} is code, which this server does not run. Name a built-in model (tool "
                "models) or a .pt2 or config.json file; or start it with 'gambrel mcp --trust'."
            )


def _told(method: Callable[..., Any]) -> Callable[..., Any]:
    """The tool, whose expected errors reach the agent as the sentence that says what to do."""

    @functools.wraps(method)
    def tool(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except GambrelError as error:
            raise ToolError(str(error)) from error

    return tool


def _limits(
    latency: str | None,
    throughput: str | None,
    power: str | None,
    energy: str | None,
    memory: str | None,
) -> dict[str, Any]:
    return {
        "latency": latency,
        "throughput": throughput,
        "power": power,
        "energy": energy,
        "memory": memory,
    }


def _command(name: str, model: str, question: dict[str, Any], **more: Any) -> str:
    runtime, engine = question["runtime"], question["engine"]
    return convert.command(
        name,
        model,
        **more,
        batch=question["batch_size"],
        precision=question["precision"],
        size=question["sizes"],
        phase=question["phase"],
        runtime=runtime,
        sparse=question["sparsity"],
        engine=engine,
    )


def _groups(found: Any) -> Sequence[tuple[str, Any]]:
    return [(name, getattr(found, name)) for name in ("meets", "unknown", "near")]
