"""The next step that a report names is one that what-if would take."""

import itertools

import pytest

import gambrel
from gambrel.advise.changes import CATALOGUE, case_of
from gambrel.advise.explore import Explorer
from gambrel.report.builders.next_step import next_step

DEVICES = (
    "a100", "h100", "mi300x", "tpu-v5e", "trainium2", "jetson-orin-nano", "snapdragon-8-gen-3",
    "rk3588", "coral-edge-tpu", "raspberry-pi-5", "m3-max", "iphone-13", "epyc-9654", "hailo-8",
)  # fmt: skip
MODELS = ("resnet50", "mobilenet-v2", "bert-base", "llama-3.2-1b-decode", "yolov8n")
#: Words of the sentence → kinds of change, one of which must be open.
WORDS = {
    "graphs": ("graphs",),
    "fusion": ("fuse",),
    "a compiled runtime": ("fuse",),
    "lower precision": ("precision", "weights", "kv"),
    "a larger batch": ("batch",),
    "another runtime": ("runtime", "fuse", "graphs"),
    "pruning": ("prune", "model"),
}


@pytest.mark.parametrize(("model", "device"), list(itertools.product(MODELS, DEVICES)))
def test_it_proposes_nothing_that_is_refused(model, device):
    found = gambrel.analyze(model, device)
    said = next_step(found, (), on_page=False)
    assert said.startswith("Next: ")
    explorer = Explorer(case_of(found))
    for words, kinds in WORDS.items():
        if words in said and found.footprint.fits is not False:
            open_ = [t for kind in kinds if kind in CATALOGUE for t in explorer.proposals(kind)]
            assert any(explorer.tried((text,)) is not None for text in open_), (said, words)


def test_where_a_call_costs_most_a_larger_batch_shares_it():
    found = gambrel.analyze("mobilenet-v2", "snapdragon-8-gen-3", precision="int8")
    assert found.limited_by == "host"
    assert "a larger batch shares what every call costs" in next_step(found, (), on_page=True)
