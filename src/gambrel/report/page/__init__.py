"""A result as a page: one front end (`web/`), one form of data for every kind of result.

render(record, options)     -> the whole page: one file that opens offline
page_data(record, options)  -> its data alone, as a live page asks for them
"""

from __future__ import annotations

from gambrel.report.page.data import page_data
from gambrel.report.page.file import filled, render

__all__ = ["filled", "page_data", "render"]
