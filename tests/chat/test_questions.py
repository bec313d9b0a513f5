"""Every question of the files is understood as intended; what is not is said, never guessed."""

import pytest

from gambrel.analysis.question import ask
from gambrel.chat.command import command_of, given, verb_of
from tests.chat.shared import asked, cases, frame_of

TUNED = cases("questions.toml")
HELD_OUT = cases("heldout.toml")
UNSEEN = cases("questions_unseen.toml")


def test_there_are_enough_of_every_kind():
    assert len(TUNED) >= 150
    assert len(HELD_OUT) >= 40
    assert len({case.category for case in TUNED}) >= 15
    assert sum(bool(case.after) for case in TUNED) >= 20


@pytest.mark.parametrize(
    "case", [*TUNED, *HELD_OUT], ids=lambda case: " > ".join((*case.after, case.question))
)
def test_understood_as_intended(case):
    assert frame_of(asked(case)) == case.frame


@pytest.mark.parametrize("case", UNSEEN, ids=lambda case: " > ".join((*case.after, case.question)))
def test_never_understood_otherwise_than_intended(case):
    assert frame_of(asked(case)) in (case.frame, None)


@pytest.mark.parametrize("case", [*TUNED, *HELD_OUT], ids=lambda case: case.question)
def test_every_frame_is_a_question_of_the_declared_fields(case):
    if case.frame is not None and verb_of(case.frame) in command_of(case.frame).split()[1:2]:
        question = ask(verb_of(case.frame), given(case.frame), "cli")
        assert question.verb == verb_of(case.frame)


def test_most_of_what_nobody_tuned_for_is_understood():
    meant = [case for case in UNSEEN if case.frame is not None]
    assert sum(frame_of(asked(c)) == c.frame for c in meant) >= 0.8 * len(meant)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("how fast is resnet50 on an a100 when four processes share it", "whole device"),
        ("how fast is resnet50 on an a100 for three drones", "What is three"),
        ("latency and number of parameters of resnet50 on a t4", "parameters"),
        ("is resnet50 faster than 5 ms on a t4 or 10 ms", "latency 5ms and 10ms"),
        ("gpus under 16 GB", "at least so much memory"),
        ("can i serve llama-3-8b on an l4 under 50 ms", "TTFT.* or each later"),
        ("how fast is bert-base on 2 l4", "one device"),
        ("how fast is resnet50 on an l4 with dlss", "'dlss'"),
        ("how fast is resnet50 on an l4 under windows", "name a runtime"),
        ("how fast is resnet50 on an l4 excluding the first layer", "exclusions"),
        ("is bert-base decode compute bound on an a100", "one forward pass"),
        ("compare a100 and h100 for resnet50 with 4 bit weights", "what if"),
        ("how fast is resnet50", "On which device?"),
        ("is the l4 faster", "Which model|only|several|What do you want|understand"),
        ("how fast is resnet-49 on an a100", "no model or device called 'resnet-49'"),
        ("how fast is resnet50 on an rtx 4180", "no model or device called 'rtx 4180'"),
        ("can resnet50 run on an a100 within 5", "What is 5"),
        ("how accurate is resnet50 on an a100", "Accuracy"),
        ("how long to train bert-base on a data set on an a100", "One training step of a network"),
        ("what does an h100 cost", "knows no prices"),
        ("how fast is resnet50 on 8 a100s", "one device"),
        ("is resnet50 slower than 10 ms at an a100 but not on the l4", "exclusions|above only"),
        ("does resnet50 take more than 10 ms on a t4", "above only"),
        ("does resnet50 on a t4 give less than 30 fps", "below only"),
        ("is a 7b model memory bound on an rtx 4090", "Many models have 7B parameters"),
        ("which precision should i use for llama-3-8b on an l4", "Name the formats"),
        ("how fast is resnet50 on an a100 with twice the bandwidth", "'bandwidth=2x' is a change"),
        ("asdf qwer", "'asdf', 'qwer'"),
        ("", "did not understand"),
        ("???", "did not understand"),
        ("resnet50 latency memory energy a100 a10 500", "What is 500"),
    ],
)
def test_says_what_is_missing(question, said):
    import re

    from gambrel.chat.frame import Unclear
    from gambrel.chat.understand import understand

    found = understand(question)
    assert isinstance(found, Unclear), found
    assert re.search(said, found.reason), found.reason


def test_candidates_of_a_name_that_begins_several():
    from gambrel.chat.understand import understand

    found = understand("how fast is llama on an h100")
    assert "llama-3-8b" in found.candidates
    assert found.partial.hardware == ("h100-sxm5-80gb",)


def test_choices_are_said():
    from gambrel.chat.understand import understand

    found = understand("how fast is renset50 on an a100")
    assert any("renset50 read as resnet50" in n for n in found.notes)
    assert any("a100 is ambiguous" in n for n in found.notes)


def test_ignored_words_are_said():
    from gambrel.chat.understand import understand

    found = understand("how fast is resnet50 on an l4 for zebras")
    assert found.notes == ("Not used: zebras.",)
