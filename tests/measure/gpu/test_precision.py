"""Precision flags: honest while measuring, afterwards as the user had set them."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from gambrel.measure import gpu  # noqa: E402
from gambrel.measure.gpu import precision  # noqa: E402
from tests.measure.gpu.doubles import EFFORT, bench, flags  # noqa: E402

MATMUL = torch.backends.cuda.matmul
NEW = hasattr(MATMUL, "fp32_precision")
needs_new = pytest.mark.skipif(not NEW, reason="torch has one precision flag alone")


@pytest.fixture(autouse=True)
def fresh_flags():
    yield
    torch.set_float32_matmul_precision("highest")
    if NEW:
        MATMUL.fp32_precision = "none"
        torch.backends.fp32_precision = "none"
        torch.backends.cudnn.fp32_precision = "none"


@pytest.mark.parametrize("was", ["highest", "high", "medium"])
def test_the_old_flag_is_as_it_was(was):
    torch.set_float32_matmul_precision(was)
    with precision.honest("cpu"):
        precision.allow_tf32(was == "highest")
    assert torch.get_float32_matmul_precision() == was


@needs_new
@pytest.mark.parametrize("was", ["none", "ieee", "tf32"])
def test_the_new_flag_is_as_it_was_although_reading_the_old_one_fails_then(was):
    MATMUL.fp32_precision = was
    if was == "tf32":
        with pytest.raises(RuntimeError, match="mix"):
            torch.get_float32_matmul_precision()
    with precision.honest("cpu"):
        for allowed in (True, False):
            precision.allow_tf32(allowed)
            assert MATMUL.fp32_precision == ("tf32" if allowed else "ieee")
    assert MATMUL.fp32_precision == was


@needs_new
def test_a_general_setting_is_still_inherited_afterwards():
    torch.backends.fp32_precision = "tf32"
    with precision.honest("cpu"):
        precision.allow_tf32(False)
    assert MATMUL.fp32_precision == "tf32"
    torch.backends.fp32_precision = "ieee"
    assert MATMUL.fp32_precision == "ieee"


class Old:
    """The flags of a version before 2.9."""

    def __init__(self):
        self.allow_fp16_accumulation = True


def test_versions_without_the_new_flag(monkeypatch):
    old = Old()
    monkeypatch.setattr(torch.backends.cuda, "matmul", old)
    torch.set_float32_matmul_precision("medium")
    with precision.honest("cpu"):
        assert not old.allow_fp16_accumulation
        precision.allow_tf32(True)
        assert torch.get_float32_matmul_precision() == "high"
    assert old.allow_fp16_accumulation
    assert torch.get_float32_matmul_precision() == "medium"
    del old.allow_fp16_accumulation
    with precision.honest("cpu"):
        pass


def test_flags_are_restored_after_a_failure_and_an_interruption():
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("medium")

    def broken(call, count):
        assert not torch.backends.cudnn.benchmark
        raise KeyboardInterrupt

    try:
        gpu.measure(bench(), EFFORT)
        assert torch.backends.cudnn.benchmark
        with pytest.raises(KeyboardInterrupt):
            gpu.measure(bench(timed=broken), EFFORT)
        assert torch.backends.cudnn.benchmark
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.backends.cudnn.benchmark = False


def test_the_state_of_random_numbers_and_autocast_do_not_matter():
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, _ = gpu.measure(bench(), EFFORT)
        assert torch.is_autocast_enabled("cpu")
    assert {m.dtype for m in found if m.resource == "vector"} == {"fp64", "fp32"}
    assert torch.equal(torch.rand(3), wanted)


def test_only_the_device_that_is_measured_keeps_its_random_numbers(monkeypatch):
    """Without a list torch starts every GPU of the machine, and warns."""
    asked = []
    real = torch.random.fork_rng

    def fork(devices=None, enabled=True, **more):
        asked.append(list(devices))
        return real(devices=[], enabled=enabled, **more)

    monkeypatch.setattr(torch.random, "fork_rng", fork)
    with precision.honest("cpu"):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # autocast for a GPU that is not there
        with precision.honest("cuda:3"):
            pass
    assert asked == [[], [3]]


def test_exact_products_are_not_called_tf32_and_rounded_ones_not_fp32(monkeypatch):
    found, unknown = gpu.measure(bench(), EFFORT)
    assert "tf32" not in {m.dtype for m in found}
    assert any(text.startswith("tf32 matmul: products stay exact fp32") for text in unknown)

    monkeypatch.setattr(precision, "rounds_to_tf32", lambda device: True)
    found, unknown = gpu.measure(bench(), EFFORT)
    assert "fp32" not in {m.dtype for m in found}
    assert any("fp32 matmul: products round their operands to TF32" in text for text in unknown)


def test_rounding_is_found_in_a_product(monkeypatch):
    assert not precision.rounds_to_tf32("cpu")
    real = torch.mm

    def rounded(a, b):
        # Ten bits behind the point, as TF32 keeps.
        return real((a * 1024).round() / 1024, b)

    monkeypatch.setattr(torch, "mm", rounded)
    assert precision.rounds_to_tf32("cpu")


def test_tf32_is_allowed_for_tf32_alone(monkeypatch):
    seen = flags(monkeypatch)
    found, _ = gpu.measure(bench(), EFFORT)
    assert [m.dtype for m in found if m.mix == "matmul"][:3] == ["fp64", "fp32", "tf32"]
    assert seen.count(True) == 1
