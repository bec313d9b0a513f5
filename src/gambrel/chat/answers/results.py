"""The results that answers rest on; those of the last turns are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gambrel.analysis import workbench
from gambrel.analysis.question import ask
from gambrel.analysis.result import Analysis
from gambrel.api.verbs import answer as answered
from gambrel.chat.command import given, verb_of
from gambrel.chat.frame import Frame
from gambrel.chat.names import names

if TYPE_CHECKING:
    from gambrel.advise.recommend import Advice

#: Questions whose results are kept: "why?" and "what if int8?" ask again about the last one.
_KEPT: Final = 8

_analyses: dict[str, tuple[Analysis, ...]] = {}
_advice: dict[int, tuple[Analysis, Any, Advice]] = {}
_selections: dict[str, Any] = {}


def result_of(frame: Frame) -> Any:
    """What the public function of the frame's verb returns.

    Raises:
        GambrelError: What the question names cannot be answered as asked.
    """
    verb = verb_of(frame)
    more = {}
    if verb == "select" and names().find(frame.models[0]):
        if len(_selections) >= _KEPT:
            _selections.clear()
        more = {"kept": _selections}
    return answered(ask(verb, given(frame)), **more)


def analyses_of(frame: Frame) -> tuple[Analysis, ...]:
    """The analyses of a frame's model on its device, one for each batch.

    What is built in cannot change between two turns; a file can, and is read again.

    Raises:
        GambrelError: What the question names cannot be analyzed as asked.
    """
    from gambrel.api.analyze import answers

    question = ask("analyze", given(frame))
    if not all(names().find(name) for name in (frame.models[0], frame.hardware[0])):
        return answers(question)
    key = repr(question)
    if key not in _analyses:
        _analyses[key] = answers(question)
        while len(_analyses) > _KEPT:
            del _analyses[next(iter(_analyses))]
    return _analyses[key]


def advice_of(analysis: Analysis) -> Advice:
    """What to change; of the analyses of the last turns it is known.

    Args:
        analysis: With a workload and a roofline time.
    """
    from gambrel.advise.recommend import advise
    from gambrel.analysis.estimate.store import load

    calibration = load()
    known = _advice.get(id(analysis))
    if known is None or known[0] is not analysis or known[1] != calibration:
        if len(_advice) >= _KEPT:
            _advice.clear()
        known = _advice[id(analysis)] = (analysis, calibration, advise(analysis, calibration))
    return known[2]


def forget() -> None:
    """Drops what is kept, as when the conversation starts."""
    for kept in (_analyses, _advice, _selections):
        kept.clear()
    workbench.forget()
