"""What is wrong with an output is named after what it looks like."""

import pytest

torch = pytest.importorskip("torch")

from gambrel.measure.candidate.compare import ReferenceOutput, compare, error_of  # noqa: E402

WANTED = torch.randn(64, 48, generator=torch.Generator().manual_seed(1))
EXPECTED = ReferenceOutput(outputs=(WANTED,), own_error=1e-7)


def named(*outputs):
    finding = compare(outputs, EXPECTED, "random values")[1]
    return None if finding is None else finding.name


def rows_missing():
    return torch.cat([WANTED[:40], torch.zeros(24, 48)])


@pytest.mark.parametrize(
    ("output", "name"),
    [
        (WANTED.clone(), None),
        (WANTED * (1 + 1e-6), None),
        (WANTED.bfloat16().float(), "wrong precision"),
        (WANTED.half().float() * (1 + 3e-4), "wrong precision"),
        (WANTED.half(), "wrong precision"),
        (rows_missing(), "skipped outputs"),
        (WANTED[:40], "skipped outputs"),
        (torch.full_like(WANTED, 0.5), "constant outputs"),
        (torch.zeros_like(WANTED), "constant outputs"),
        (torch.full_like(WANTED, float("nan")), "skipped outputs"),
        (torch.full_like(WANTED, float("inf")), "wrong precision"),
        (WANTED + 0.4 * WANTED.roll(1), "reduced work"),
        (WANTED.roll(7), "wrong result"),
    ],
)
def test_outputs_are_named(output, name):
    assert named(output) == name


def test_missing_outputs_are_named():
    assert named() == "skipped outputs"


def test_an_error_is_a_share_of_the_largest_value():
    wanted = torch.tensor([1.0, -4.0])
    assert error_of(torch.tensor([1.0, -3.9]), wanted) == pytest.approx(0.025, rel=1e-5)
    assert error_of(torch.tensor([float("nan"), 1.0]), wanted) == float("inf")
