"""Wrong values in the public functions: one sentence, never an exception of Python itself."""

import sys
from pathlib import Path

import pytest

import gambrel
from gambrel.errors import SHOWN, GambrelError, InputError, shown

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.sweeps import api_types

CASES = {case.name: case for case in api_types.cases()}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_value_is_refused_in_one_sentence(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    case = CASES[name]
    many = len(case.arguments) > 4
    found = list(api_types.leaks(case, share=0.04 if many else 0.3))
    assert len(found) > 5
    assert [leak for leak in found if leak is not None] == []


def test_the_sweep_sees_a_leak():
    def broken(x=0):
        return x.upper()

    case = api_types.Case(name="broken", function=broken, given={}, arguments=("x",))
    leaks = [leak for leak in api_types.leaks(case) if leak]
    assert {leak.value for leak in leaks} > {"None", "True", "path"}
    assert all(isinstance(leak.error, AttributeError) for leak in leaks)


class TestMessages:
    def test_a_long_word_is_cut(self):
        said = str(InputError(f"unknown {'x' * 10_000}; see the list."))
        assert said == f"unknown {'x' * SHOWN}...; see the list."[: len("unknown ") + SHOWN + 3] + (
            " see the list."
        )

    def test_a_long_quotation_is_cut_and_the_advice_stays(self):
        said = str(InputError(f"no engine {'ab ' * 4000!r}; it has matrix."))
        assert len(said) < 300
        assert said.endswith("it has matrix.")

    def test_short_quotations_and_apostrophes_stay(self):
        said = "it isn't 'a' " + "and that is so " * 30 + "or 'b'."
        assert str(InputError(said)) == said

    def test_codes_for_terminals_are_made_visible(self):
        assert str(GambrelError("a\x1b[31m\u202eb\x9b\nc")) == r"a\x1b[31m\u202eb\x9b c"

    def test_a_value_is_shown_in_two_hundred_characters(self):
        assert shown("ab") == "'ab'"
        assert len(shown(["x" * 10_000])) == SHOWN + 3
        assert len(shown(b"x" * 10**8)) == SHOWN + 3

    def test_the_name_of_an_unknown_device_is_cut_and_kept(self):
        with pytest.raises(gambrel.UnknownNameError) as caught:
            gambrel.analyze("resnet18", "no such " * 1000)
        assert len(str(caught.value)) < 600
        assert caught.value.name == "no such " * 1000
