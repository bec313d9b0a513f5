"""What people write as limits, and what is refused."""

import pytest

from gambrel.advise.limits import Limit, format_metric, parse_limits, read_spec
from gambrel.errors import FileFormatError, InputError, UnknownNameError


def value(metric, given):
    return parse_limits({metric: given})[0].value


@pytest.mark.parametrize(
    ("metric", "given", "expected"),
    [
        ("latency", "10ms", 0.01),
        ("latency", "33 ms", 0.033),
        ("latency", "2s", 2.0),
        ("latency", "250us", 0.00025),
        ("throughput", "30fps", 30),
        ("throughput", "30", 30),
        ("throughput", "1.5k/s", 1500),
        ("throughput", "60Hz", 60),
        ("power", "15W", 15),
        ("power", "500mW", 0.5),
        ("energy", "500mJ", 0.5),
        ("memory", "4096MB", 4_096_000_000),
        ("memory", "4GiB", 4_294_967_296),
        ("price", "300", 300),
        ("latency", 0.5, 0.5),
    ],
)
def test_units_as_people_write_them(metric, given, expected):
    assert value(metric, given) == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["latency", "power", "energy", "memory"])
def test_a_bare_number_has_no_unit(metric):
    with pytest.raises(InputError, match=rf"^{metric} '10' has no unit; write for example "):
        parse_limits({metric: "10"})


@pytest.mark.parametrize(
    ("metric", "given"),
    [
        ("latency", "10W"),
        ("power", "10ms"),
        ("memory", "4fps"),
        ("latency", "-10ms"),
        ("latency", "0ms"),
        ("latency", "soon"),
        ("latency", ""),
        ("latency", -1.0),
        ("power", float("nan")),
        ("power", True),
        ("price", "cheap"),
    ],
)
def test_what_is_no_such_quantity_is_refused(metric, given):
    with pytest.raises(InputError, match=f"^{metric}"):
        parse_limits({metric: given})


def test_no_limit_and_an_unknown_one():
    with pytest.raises(InputError, match="give at least one limit"):
        parse_limits({"latency": None})
    with pytest.raises(UnknownNameError, match="unknown limit 'weight'"):
        parse_limits({"weight": "1kg"})


def test_limits_are_written_out():
    assert Limit(metric="latency", value=0.01).text == "latency ≤ 10 ms"
    assert Limit(metric="throughput", value=30.0).text == "throughput ≥ 30/s"
    assert format_metric("memory", None) == "unknown"


def test_a_requirements_file(tmp_path):
    path = tmp_path / "limits.toml"
    path.write_text('model = "resnet18"\nbatch = 2\n[limits]\nlatency = "10ms"\nthroughput = 30\n')
    spec = read_spec(path)
    assert (spec.model, spec.hardware, spec.batch) == ("resnet18", None, 2)
    assert [limit.value for limit in parse_limits(spec.limits)] == [0.01, 30.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency = '10ms'", "a requirements file: unknown field 'latency'; it takes limits"),
        ("[limits", "not a TOML file"),
        ("limits = 3", "Expected `object`"),
        ("batch = 'two'", "Expected `int"),
    ],
)
def test_a_broken_requirements_file(tmp_path, text, message):
    path = tmp_path / "limits.toml"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        read_spec(path)


def test_a_number_in_a_file_has_no_unit_either(tmp_path):
    path = tmp_path / "limits.toml"
    path.write_text("[limits]\nlatency = 10\n")
    with pytest.raises(InputError, match="latency '10' has no unit"):
        parse_limits(read_spec(path).limits)
    with pytest.raises(FileFormatError, match="cannot read"):
        read_spec(tmp_path / "none.toml")
