"""Pages of every kind: each figure says what it is and what it rests on, in words of a page."""

import json
import re

import pytest

import gambrel
from gambrel.units import format_capacity
from tests.report.kinds import KINDS
from tests.report.pages import page

#: An option, not within a command that can be copied.
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
COMMAND = re.compile(r"\b(gambrel|vllm|python|trtllm-serve|git|pip)\b")


def said(data):
    """Every sentence of a page, its commands apart."""
    texts = list(data["strings"])
    for view in data["views"]:
        texts += [view["title"], *view["answer"]]
        for block in (b for s in view["sections"] for b in s["blocks"]):
            texts += [str(t) for pair in block.get("items", ()) for t in (pair, "")]
            texts += [block.get("note") or "", block.get("heading") or ""]
        texts += [str(v) for figure in view["figures"] for v in figure.values()]
    return texts


@pytest.fixture(scope="module", params=list(KINDS))
def data(request):
    return page(KINDS[request.param]()).data


def test_every_figure_says_its_formula_and_source(data):
    figures = [f for view in data["views"] for f in view["figures"]]
    lacking = {f["label"]: [k for k in ("formula", "source") if not f.get(k)] for f in figures}
    assert not {label: keys for label, keys in lacking.items() if keys}


def test_a_page_has_no_options_to_type(data):
    assert not [t for t in said(data) if OPTION.search(t) and not COMMAND.search(t)]


def test_one_is_not_several_and_times_is_a_sign(data):
    text = json.dumps(said(data), ensure_ascii=False)
    assert not re.search(r"(?<![\d.,])1 (rows|points|devices|ops|metrics|kernels|plans)\b", text)
    assert not re.search(r"(?<![\w.])\d+(\.\d+)?x(?=[\s,.;:])(?! \d)", text)


@pytest.mark.parametrize("more", [{}, {"data": 8, "zero": 3, "recompute": "full"}])
def test_a_training_step_has_one_peak_of_memory(more):
    """The answer, the chart over the step and the sum of the parts say the same."""
    step = gambrel.train_plan("llama-3.1-8b", "h100", seq="4k", **more)
    (view,) = page(step).data["views"]
    m = step.memory
    parts = (m.parameters_bytes, m.gradients_bytes, m.optimizer_bytes, m.activations_bytes)
    total = format_capacity(sum(parts))
    assert f"Memory: {total} of 80 GiB" in " ".join(view["answer"])
    notes = [note["text"] for chart in view["charts"] for note in chart.get("notes", ())]
    assert [note for note in notes if note.startswith(f"peak {total} at ")]
