"""One model against references: parameters of the module, matrix FLOP of torch's own counter."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import gambrel
from gambrel.capture.torch import capture
from gambrel.errors import GambrelError


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table.

    Attributes:
        name: Of the model.
        parameters: Ours and those of the module.
        flops: Ours on the matrix engine and those of FlopCounterMode; None where it cannot run.
        coverage: Share of ops with a formula.
        error: Why there are no figures.
        known: Why the figures differ, where that is known and ours are right.
        traffic: Bytes between memory and chip, ours and those of the reference.
        seconds: Time of reading the file.
    """

    name: str
    parameters: tuple[int, int] = (0, 0)
    flops: tuple[int, int | None] = (0, None)
    coverage: float = 1.0
    error: str = ""
    known: str = ""
    traffic: tuple[float, float] = (0, 0)
    seconds: float = 0

    @property
    def verdict(self) -> str:
        """What the line says."""
        if self.error:
            return f"refused: {self.error}"
        if self.parameters[0] != self.parameters[1]:
            why = f"parameters differ: {self.known}"
            return why if self.known and self.flops[0] == self.flops[1] else "PARAMETERS DIFFER"
        if self.flops[1] is None:
            return "no reference"
        if self.flops[0] != self.flops[1]:
            return f"differs: {self.known}" if self.known else "FLOP DIFFER"
        return "equal"

    @property
    def failed(self) -> bool:
        """Whether the sweep fails."""
        return bool(self.error and not self.known) or "DIFFER" in self.verdict


def compare(
    name: str, build: Callable[[], tuple[Any, Mapping[str, Any]]], known: Mapping[str, str]
) -> Row:
    """Builds a model and its inputs, captures it and counts it with torch's counter."""
    reason = next((why for key, why in known.items() if name.startswith(key)), "")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, inputs = build()
            workload = capture(model.eval(), (), inputs, source=False)
            analysis = gambrel.analyze(workload, "h100", precision=None, causal="full")
            expected = _counted(model, inputs)
    except GambrelError as error:
        return Row(name=name, error=str(error)[:150], known=reason)
    except Exception as error:
        return Row(name=name, error=f"{type(error).__name__}: {str(error)[:150]}", known=reason)
    return Row(
        name=name,
        parameters=(analysis.model.parameters, sum(p.numel() for p in model.parameters())),
        flops=(int(analysis.total.matrix_flops), expected),
        coverage=analysis.coverage,
        known=reason,
    )


def _counted(model: Any, inputs: Mapping[str, Any]) -> int | None:
    """FLOP of one pass on the meta device, by torch's own counter; None where it stops."""
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    counter = FlopCounterMode(display=False)
    try:
        moved = {k: v.to("meta") if hasattr(v, "to") else v for k, v in inputs.items()}
        with torch.no_grad(), counter:
            model.to("meta")(**moved)
        return int(counter.get_total_flops())
    except Exception:
        return None
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)


def report(rows: Iterable[Row]) -> int:
    """Prints the table as it grows; returns the exit code."""
    total, failed, seen = 0, 0, dict[str, int]()
    sys.stdout.write(
        f"{'model':44} {'parameters':>15} {'matrix FLOP':>18} {'coverage':>9}  verdict\n"
    )
    for row in rows:
        total, failed = total + 1, failed + row.failed
        word = row.verdict.partition(":")[0]
        seen[word] = seen.get(word, 0) + 1
        figures = f"{row.parameters[0]:>15,} {row.flops[0]:>18,} {row.coverage:>9.1%}"
        aside = f" ({row.parameters[1]:,}; {row.flops[1]:,})" if "DIFFER" in row.verdict else ""
        sys.stdout.write(f"{row.name:44} {figures}  {row.verdict}{aside}\n")
        sys.stdout.flush()
    summary = ", ".join(f"{count} {word}" for word, count in seen.items())
    sys.stdout.write(f"\n{total} models: {summary}\n")
    return 1 if failed else 0
