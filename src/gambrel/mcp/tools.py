"""The tools: each takes a question, calls one function and returns its record as plain data."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from gambrel.analysis.commandline import command_of
from gambrel.analysis.fields import Field
from gambrel.analysis.question import Question, ask, fields_of
from gambrel.errors import InputError, withholding
from gambrel.mcp import answers
from gambrel.mcp.records import plain, schema

#: ``file.py:function`` and ``package.module:Class`` would run code.
_CODE: Final = re.compile(r"^(?:.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool.

    Attributes:
        name: As agents call it.
        verb: The question it asks.
        record: ``module:Class`` of its answer.
        answer: From the question to that record.
        listed: Where the answer is a list of such records: its name.
    """

    name: str
    verb: str
    record: str
    answer: Callable[[Question], Any]
    listed: str = ""

    @property
    def description(self) -> str:
        """What an agent reads."""
        return (self.answer.__doc__ or "").strip().split("\n\n", 1)[0]

    @functools.cached_property
    def input_schema(self) -> dict[str, Any]:
        """From the fields of the question."""
        fields = list(fields_of(self.verb, "mcp"))
        return {
            "type": "object",
            "properties": {field.name: _schema(field, self.verb) for field in fields},
            "required": [field.name for field in fields if self.verb in field.required],
            "additionalProperties": False,
        }

    @functools.cached_property
    def output_schema(self) -> dict[str, Any]:
        """From the record."""
        module, _, name = self.record.partition(":")
        found = schema(getattr(import_module(module), name), self.listed, top=self._takes_top)
        about = "Shell command that gives every figure of this answer again."
        command = {"type": "string", "description": about}
        return found | {"properties": {"command": command} | found["properties"]}

    def call(self, arguments: Mapping[str, Any], *, trust: bool = False) -> dict[str, Any]:
        """The answer to what an agent asks.

        Args:
            arguments: As the input schema says.
            trust: Whether models may be code that is run.

        Raises:
            GambrelError: The question cannot be answered; the message says what to do.
        """
        question = ask(self.verb, arguments, "mcp")
        models = question.several("model") if question.model is not None else ()
        for model in models if not trust else ():
            if _CODE.match(str(model)):
                raise InputError(
                    f"{model} is code, which this server does not run. Name a built-in model (tool "
                    "models) or a .pt2 or config.json file; or start it with 'gambrel mcp --trust'."
                )
        with withholding():
            found = self.answer(dataclasses.replace(question, trust=trust))
        top = question.top if self._takes_top else 0
        return {"command": command_of(self.verb, arguments)} | plain(found, top)

    @property
    def _takes_top(self) -> bool:
        return any(field.name == "top" for field in fields_of(self.verb, "mcp"))


def _schema(field: Field, verb: str) -> dict[str, Any]:
    one: dict[str, Any] = dict(field.kind.schema)
    if verb in field.several:
        one = {"anyOf": [one, {"type": "array", "items": one}]}
    unit = {"unit": field.kind.unit} if field.kind.unit else {}
    default = {} if field.default in (None, ()) else {"default": field.default}
    return {**one, "description": field.help, **unit, **default}


#: Every tool.
TOOLS: Final[dict[str, Tool]] = {
    tool.name: tool
    for tool in (
        Tool(
            name="analyze",
            verb="analyze",
            record="gambrel.analysis.result:Analysis",
            answer=answers.analyze,
        ),
        Tool(
            name="recommend",
            verb="recommend",
            record="gambrel.advise.recommend:Advice",
            answer=answers.recommend,
        ),
        Tool(
            name="what_if",
            verb="what-if",
            record="gambrel.advise.whatif:WhatIf",
            answer=answers.what_if,
        ),
        Tool(name="check", verb="check", record="gambrel.advise.check:Check", answer=answers.check),
        Tool(
            name="compare",
            verb="compare",
            record="gambrel.advise.compare:Comparison",
            answer=answers.compare,
        ),
        Tool(
            name="select",
            verb="select",
            record="gambrel.advise.select:Selection",
            answer=answers.select,
        ),
        Tool(
            name="serve_plan",
            verb="serve-plan",
            record="gambrel.llm.serving.records:Plan",
            answer=answers.serve_plan,
        ),
        Tool(
            name="train_plan",
            verb="train-plan",
            record="gambrel.llm.training:TrainingStep",
            answer=answers.train_plan,
        ),
        Tool(
            name="kv_cache",
            verb="kv-cache",
            record="gambrel.llm.cache_plan:CachePlan",
            answer=answers.kv_cache,
        ),
        Tool(
            name="devices",
            verb="devices",
            record="gambrel.device.listing:DeviceRow",
            listed="devices",
            answer=answers.devices,
        ),
        Tool(
            name="device",
            verb="device",
            record="gambrel.mcp.answers:Datasheet",
            answer=answers.device,
        ),
        Tool(
            name="models",
            verb="models",
            record="gambrel.workload:WorkloadSummary",
            listed="models",
            answer=answers.models,
        ),
        Tool(
            name="runtimes",
            verb="runtimes",
            record="gambrel.runtimes:Runtime",
            listed="runtimes",
            answer=answers.runtimes,
        ),
        Tool(
            name="explain",
            verb="explain",
            record="gambrel.mcp.answers:Explanation",
            answer=answers.explain,
        ),
    )
}
