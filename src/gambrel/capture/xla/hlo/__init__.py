"""The text of HLO modules, as ``--xla_dump_to`` and ``as_text(dialect="hlo")`` write it."""

from gambrel.capture.xla.hlo.text import parse
from gambrel.capture.xla.hlo.walk import HloWalker

__all__ = ["HloWalker", "parse"]
