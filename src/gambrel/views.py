"""The one door up: from a result to what shows it or builds on it, from a name to what it means.

A layer imports nothing above it. The notebook methods of results (plot, save, recommend, ...), the
built-in models and this machine are looked up here by name, on call.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

#: Name of a view → module and function.
_VIEWS: Final = {
    "render": ("gambrel.report", "render"),
    "envelope": ("gambrel.report", "envelope"),
    "write": ("gambrel.report", "write"),
    "frame": ("gambrel.report.frame", "to_dataframe"),
    "table_frame": ("gambrel.report.frame", "frame_of"),
    "picture": ("gambrel.report.notebook", "plot"),
    "mimebundle": ("gambrel.report.notebook", "mimebundle"),
    "line": ("gambrel.report.notebook", "line"),
    "sweep_frame": ("gambrel.report.sweep_frame", "frame"),
    "roofline": ("gambrel.report.plot_interactive", "plot"),
    "memory": ("gambrel.report.timeline", "plot"),
    "recommend": ("gambrel.advise.recommend", "recommend"),
    "launch_saving": ("gambrel.advise.launches", "launch_saving"),
    "change": ("gambrel.advise.whatif", "with_change"),
    "models": ("gambrel.capture.zoo", "list_models"),
    "variant": ("gambrel.capture.variants", "variant"),
    "other_model": ("gambrel.capture.variants", "other_model"),
    "edited": ("gambrel.capture.variants", "edited"),
    "formats": ("gambrel.capture.variants", "formats_of"),
    "this_machine": ("gambrel.measure.this", "this_device"),
}


def view(name: str, *args: Any, **kwargs: Any) -> Any:
    """Calls a view of a result, or looks up what lies above.

    Args:
        name: Of the view.
        *args: For its function; of a result, it comes first.
        **kwargs: For its function.
    """
    module, function = _VIEWS[name]
    return getattr(import_module(module), function)(*args, **kwargs)


class Viewed:
    """A result as notebooks show it: a small chart and table, a data frame, a figure."""

    __slots__ = ()

    def __repr__(self) -> str:
        line: str = view("line", self)
        return line

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        bundle: dict[str, str] = view("mimebundle", self)
        return bundle

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]

    def to_dataframe(self) -> Any:
        """Its main table as a ``pandas.DataFrame``: base SI units, unknown missing.

        Raises:
            MissingExtraError: pandas is not installed.
            InputError: It has no table.
        """
        return view("table_frame", self)

    def plot(self, title: str | None = None) -> Any:
        """Its first picture as a plotly Figure.

        Args:
            title: Replaces that of the picture.

        Raises:
            MissingExtraError: plotly is not installed.
            InputError: It has no picture.
        """
        return view("picture", self, title)
