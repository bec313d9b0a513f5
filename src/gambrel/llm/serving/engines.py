"""Where no serving engine is named: decode steps as the mean of those that were measured there.

The ratio between engines is taken from one layout on each device, at several batches. The TPOT of
196 served runs of three engines is then off by 10 % for dense models and 12.5 % for mixtures, with
the device's usual engine alone by 14 and 9 % (`benchmarks/served.py --any`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from gambrel.analysis.sweep import sweep
from gambrel.analysis.sweep.points import Floats
from gambrel.errors import GambrelError
from gambrel.llm.serving.question import Requests
from gambrel.llm.serving.steps import Setup, decode_step, decode_times, symbolic
from gambrel.runtimes import choose, runtimes

#: Requests on a device at which engines are compared.
_BATCHES: Final = (1, 4, 16, 64, 256, 1024)


class EngineMix(msgspec.Struct, frozen=True, kw_only=True):
    """Decode steps of several engines over those of the device's usual one.

    Attributes:
        names: The engines, the usual one first.
        ratios: [engine, batch].
    """

    names: tuple[str, ...]
    ratios: Floats

    def mean(self, batches: ArrayLike) -> Floats:
        """The mean ratio at so many requests on a device."""
        return self._at(self.ratios.mean(axis=0), batches)

    def spread(self, batch: int) -> tuple[float, float]:
        """The fastest and the slowest engine over the mean."""
        mean = float(self.mean([batch])[0])
        least, most = (f(self.ratios, axis=0) for f in (np.min, np.max))
        return tuple(float(self._at(x, [batch])[0]) / mean for x in (least, most))  # type: ignore[return-value]

    def _at(self, ratios: Floats, batches: ArrayLike) -> Floats:
        found: Floats = np.interp(np.log2(np.asarray(batches, float)), np.log2(_BATCHES), ratios)
        return found


def mix_of(setup: Setup, requests: Requests) -> EngineMix | None:
    """The engines that run on a device; None where fewer than two were measured there."""
    usual = setup.settings.runtime or ""
    if setup.service is None:
        return None
    own = decode_times(setup, requests.mean_context, _BATCHES, source=requests.source_tokens)
    names, rows = [usual], [np.ones(len(_BATCHES))]
    for name, one in runtimes().items():
        if one.service is None or name == usual:
            continue
        other = _with(setup, name)
        if other is None or not _measured(other, requests):
            continue
        times = decode_times(other, requests.mean_context, _BATCHES, source=requests.source_tokens)
        names.append(name)
        rows.append(times.expected / own.expected)
    if len(names) < 2:
        return None
    return EngineMix(names=tuple(names), ratios=np.array(rows))


def _with(setup: Setup, name: str) -> Setup | None:
    """The layout under another engine; None where it does not run there."""
    try:
        choose(setup.device, name, language=True)
    except GambrelError:
        return None
    return msgspec.structs.replace(setup, settings=replace(setup.settings, runtime=name))


def _measured(setup: Setup, requests: Requests) -> bool:
    """Whether the engine's kernels were measured on the device or its like."""
    step = decode_step(setup, requests.mean_context, "batch", requests.source_tokens)
    try:
        workload = setup.workload(symbolic(step, {"batch": 1}))
        found = sweep(
            workload, [setup.placed], [None], {"batch": [1]}, setup.settings, times_only=True
        )
    except GambrelError:
        return False
    return not bool(np.isnan(found.expected_time_s).any())
