"""The tools: each takes a question, calls one function and returns its record as plain data."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from gambrel.analysis.commandline import command_of
from gambrel.analysis.question import ask, fields_of, needed
from gambrel.api.faces import refuse_code
from gambrel.api.verbs import answer, record_of
from gambrel.errors import withholding
from gambrel.mcp import answers
from gambrel.mcp.records import plain, schema
from gambrel.report.json_head import SCHEMA_VERSION
from gambrel.report.registry import kind_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tool:
    """One tool.

    Attributes:
        verb: The question it asks.
        description: What an agent reads.
        record: ``module:Class`` of its answer where that is not the one of the verb.
        listed: Where the answer is a list of such records: its name.
    """

    verb: str
    description: str
    record: str = ""
    listed: str = ""

    @property
    def name(self) -> str:
        """As agents call it."""
        return self.verb.replace("-", "_")

    @functools.cached_property
    def input_schema(self) -> dict[str, Any]:
        """From the fields of the question."""
        fields = list(fields_of(self.verb, "mcp"))
        return {
            "type": "object",
            "properties": {field.name: field.schema(self.verb) for field in fields},
            "required": [field.name for field in fields if needed(field, self.verb, "mcp")],
            "additionalProperties": False,
        }

    @functools.cached_property
    def output_schema(self) -> dict[str, Any]:
        """From the record."""
        module, _, name = self.record.partition(":")
        record = getattr(import_module(module), name) if module else record_of(self.verb)
        found = schema(record, self.listed, top=self._takes_top)
        about = "Shell command that gives every figure of this answer again."
        head = {
            "type": {"const": self._type},
            "schema_version": {"const": SCHEMA_VERSION},
            "command": {"type": "string", "description": about},
        }
        return found | {"properties": head | found["properties"]}

    def call(self, arguments: Mapping[str, Any], *, trust: bool = False) -> dict[str, Any]:
        """The answer to what an agent asks.

        Args:
            arguments: As the input schema says.
            trust: Whether models may be code that is run.

        Raises:
            GambrelError: The question cannot be answered; the message says what to do.
        """
        question = ask(self.verb, arguments, "mcp")
        if not trust:
            refuse_code(
                question,
                "Name a built-in model (tool models) or a .pt2 or config.json file; or start it "
                "with 'gambrel mcp --trust'.",
            )
        own = getattr(answers, self.name, answer)
        with withholding():
            found = own(dataclasses.replace(question, trust=trust))
        if self.listed:
            found = {name: getattr(found, name) for name in found.__struct_fields__}
        top = question.top if self._takes_top else 0
        head = {"type": self._type, "schema_version": SCHEMA_VERSION}
        return head | {"command": command_of(self.verb, arguments)} | plain(found, top)

    @functools.cached_property
    def _type(self) -> str:
        """What the answer is; the same as in the JSON of the command line."""
        if self.record:
            return f"gambrel/{self.verb}"
        return kind_of(record_of(self.verb)).type

    @property
    def _takes_top(self) -> bool:
        return any(field.name == "top" for field in fields_of(self.verb, "mcp"))


#: Verb → what an agent reads of its tool.
_ABOUT: Final = {
    "analyze": "How long a model takes on a device, what limits it, its roofline and speed of "
    "light.",
    "recommend": "What to change and by how much it would help: each change applied and analyzed "
    "again.",
    "what-if": "The same question with changes: both answers, and where they differ.",
    "check": "Whether a model on a device meets targets, and for a FAIL what would make it pass.",
    "compare": "Models on devices in precisions and at batches, best first; unknown stays unknown.",
    "select": "The devices on which a model meets targets; unknowns and near misses stand apart.",
    "sweep": "Many points at once: every combination of models, devices, runtimes, formats and "
    "sizes; the best first, and the Pareto front.",
    "design": "A device that does not exist yet: time, energy and area of every combination of its "
    "parameters under models.",
    "judge": "Whether a measured time of a kernel, layer or model is impossible, at the limit, of "
    "library class, or leaves headroom; score against the speed of light.",
    "limits": "What a kernel, layer or model needs at the least: work, traffic, speed of light, "
    "and what a library kernel is expected to take.",
    "explain-gap": "Why a measured time is above the speed of light, step by step, and what to "
    "do first.",
    "serve-plan": "How to serve a language model: layout, batch, devices, TTFT, TPOT, tokens/s and "
    "cost.",
    "serve-sim": "Serving request by request: TTFT, TPOT percentiles, goodput, queue, fewest "
    "devices for a trace or a rate.",
    "serve-split": "Prefill and decode on devices of their own: pools, ratio, TTFT, TPOT.",
    "train-plan": "A training step of a language model: time, MFU, tokens per second, memory.",
    "train-search": "The fastest layouts of a training step on so many devices, why the next is "
    "slower, and time against memory.",
    "kv-cache": "The key/value cache: bytes needed and reserved, and the batch and context that "
    "fit.",
    "devices": "The catalog of devices: dense peak, bandwidth, ridge point, memory, TDP.",
    "device": "One device with every ceiling and its source.",
    "models": "The built-in models with the sizes that may be chosen.",
    "runtimes": "How models are executed: kernels, on-chip memory, host time, formats, evidence.",
    "explain": "What a term of roofline analysis means, and how to read a device's figures.",
}
#: Verb → class of the answer where it is not the one of the verb, and its name in a list.
_RECORDS: Final = {
    "sweep": ("gambrel.mcp.answers:SweepAnswer", ""),
    "design": ("gambrel.mcp.answers:DesignAnswer", ""),
    "devices": ("gambrel.device.listing:DeviceRow", "devices"),
    "device": ("gambrel.mcp.answers:Datasheet", ""),
    "models": ("gambrel.workload:WorkloadSummary", "models"),
    "runtimes": ("gambrel.runtimes:Runtime", "runtimes"),
    "explain": ("gambrel.mcp.answers:Explanation", ""),
}


def _tool(verb: str) -> Tool:
    record, listed = _RECORDS.get(verb, ("", ""))
    return Tool(verb=verb, description=_ABOUT[verb], record=record, listed=listed)


#: Every tool.
TOOLS: Final[dict[str, Tool]] = {tool.name: tool for tool in map(_tool, _ABOUT)}
