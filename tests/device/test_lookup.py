"""Names as people and drivers write them."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.device import catalog
from gambrel.device.lookup import HINT, find, from_peaks, user_devices, user_devices_folder
from gambrel.device.names import name_key
from gambrel.device.roofs import resolve
from gambrel.errors import FileFormatError, InputError, UnknownNameError

EXACT = {
    "h100-sxm5-80gb": "h100-sxm5-80gb",
    "NVIDIA H100 80GB HBM3": "h100-sxm5-80gb",
    "H100 SXM": "h100-sxm5-80gb",
    "H100 PCIe": "h100-pcie-80gb",
    "NVIDIA H100 PCIe": "h100-pcie-80gb",
    "NVIDIA H100 NVL": "h100-nvl-94gb",
    "h200": "h200-sxm-141gb",
    "NVIDIA H200": "h200-sxm-141gb",
    "NVIDIA GH200 480GB": "gh200-96gb",
    "A100-SXM4-80GB": "a100-sxm4-80gb",
    "NVIDIA A100-SXM4-80GB": "a100-sxm4-80gb",
    "a100_sxm4_80gb": "a100-sxm4-80gb",
    "A100-SXM-80GB": "a100-sxm4-80gb",
    "a100 80 GB sxm4": "a100-sxm4-80gb",
    "A100-SXM4-40GB": "a100-sxm4-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "Tesla V100-SXM2-32GB": "v100-sxm2-32gb",
    "Tesla V100-PCIE-32GB": "v100-pcie-32gb",
    "Tesla T4": "t4",
    "t4": "t4",
    "NVIDIA L40S": "l40s",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "rtx4090": "rtx-4090",
    "RTX 2080Ti": "rtx-2080-ti",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000-blackwell",
    "AMD Instinct MI300X OAM": "mi300x",
    "AMD Instinct MI300X": "mi300x",
    "Radeon RX 7900 XTX": "rx-7900-xtx",
    "jetson agx orin 64gb": "jetson-agx-orin-64gb",
    "jetson-orin-nano-super": "jetson-orin-nano-super-8gb",
    "Jetson Nano": "jetson-nano-4gb",
    "coral-edge-tpu": "coral-edge-tpu",
    "Coral": "coral-edge-tpu",
    "TPU v5 lite": "tpu-v5e",
    "TPU v5e": "tpu-v5e",
    "v5e": "tpu-v5e",
    "TPU v6 lite": "tpu-v6e",
    "Trillium": "tpu-v6e",
    "Apple M2 Max": "m2-max",
    "m2max": "m2-max",
    "Intel(R) Xeon(R) Platinum 8480+ @ 2.00GHz": "xeon-8480+",
    "AMD EPYC 9654 96-Core Processor": "epyc-9654",
    "Raspberry Pi 5": "raspberry-pi-5",
    "Raspberry Pi 4 Model B": "raspberry-pi-4",
    "AMD EPYC 7763 64-Core Processor": "epyc-7763",
    "Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz": "xeon-8380",
    "13th Gen Intel(R) Core(TM) i9-13900K": "core-i9-13900k",
    "Intel(R) Core(TM) Ultra 7 155H": "core-ultra-7-155h",
    "Intel Core Ultra 7 155H NPU": "intel-npu-meteor-lake",
    "core-ultra-200v-npu": "intel-npu-lunar-lake",
    "Snapdragon 8 Gen 2": "qcs8550",
    "QCS8550 (Proxy)": "qcs8550",
    "Samsung Galaxy S24": "snapdragon-8-gen-3",
    "SA8775P": "iq-9075",
    "RK3588S": "rk3588-npu",
    "DGX Spark": "gb10",
    "trn2": "trainium2",
    "p4d": "a100-sxm4-40gb",
    "AWS g5": "a10g",
    "Orange Pi 5": "rk3588-npu",
    "Raspberry Pi AI Kit": "hailo-8l",
    "Sapphire Rapids": "xeon-8480+",
    "Ryzen 7950X": "ryzen-9-7950x",
}

AMBIGUOUS = {
    "Core Ultra 7": "core-ultra-7-155h",
    "Core Ultra 7 NPU": "intel-npu-meteor-lake",
    "Raspberry Pi": "raspberry-pi-5",
    "Ryzen AI": "ryzen-ai-300",
    "MI300": "mi300x",
    "gfx942": "mi300x",
    "AI HAT+": "hailo-8",
    "a100": "a100-sxm4-80gb",
    "NVIDIA A100": "a100-sxm4-80gb",
    "h100": "h100-sxm5-80gb",
    "v100": "v100-sxm2-32gb",
    "b200": "b200-hgx-180gb",
    "orin nano": "jetson-orin-nano-8gb",
    "jetson-orin-nano": "jetson-orin-nano-8gb",
    "NVIDIA Jetson Orin Nano Developer Kit": "jetson-orin-nano-8gb",
    "jetson-orin-agx": "jetson-agx-orin-64gb",
}


@pytest.fixture
def nothing(tmp_path):
    """A folder without devices, so that those of the machine's user play no part."""
    return tmp_path


@pytest.mark.parametrize(("name", "expected"), EXACT.items())
def test_a_name_finds_its_device(name, expected, nothing):
    match = find(name, user_folder=nothing)
    assert (match.device.id, match.note) == (expected, "")


@pytest.mark.parametrize(("name", "expected"), AMBIGUOUS.items())
def test_an_ambiguous_name_takes_the_default_and_says_so(name, expected, nothing):
    match = find(name, user_folder=nothing)
    assert match.device.id == expected
    assert match.note.startswith(f"{name} is ambiguous: using {expected}; also ")


def test_what_only_one_device_begins_with_is_taken_and_said(nothing):
    match = find("Altra Max M128", user_folder=nothing)
    assert match.device.id == "altra-max-m128-30"
    assert find("altra-max-m128", user_folder=nothing).note == (
        "altra-max-m128 is taken for altra-max-m128-30, the only device whose name begins so."
    )
    stems = catalog.index().stems
    assert not stems.keys() & (catalog.index().names.keys() | catalog.index().ambiguous.keys())
    for other in ("gtx-1050", "rx-6600", "rtx-4000"):  # other products than the Ti, XT and Ada
        assert not set(name_key(other).keys) & stems.keys()


def test_what_several_devices_begin_with_lists_them(nothing):
    with pytest.raises(UnknownNameError) as caught:
        find("snapdragon", user_folder=nothing)
    assert set(caught.value.closest) == {
        *("snapdragon-8-elite", "snapdragon-8-elite-gen-5"),
        *("snapdragon-8-gen-3", "snapdragon-x-elite"),
    }


def test_the_note_names_every_other_reading(nothing):
    assert find("a100", user_folder=nothing).note == (
        "a100 is ambiguous: using a100-sxm4-80gb; "
        "also a100-sxm4-40gb, a100-pcie-80gb, a100-pcie-40gb."
    )


def test_a_rented_machine_stands_for_one_of_its_devices(nothing):
    match = find("p5.48xlarge", user_folder=nothing)
    assert match.device.id == "h100-sxm5-80gb"
    assert match.note == "p5.48xlarge stands for one of its devices, h100-sxm5-80gb."


@pytest.mark.parametrize("name", ["commodore", "esp32", "kindle fire"])
def test_a_name_like_no_other_gets_no_suggestion(name, nothing):
    with pytest.raises(UnknownNameError) as caught:
        find(name, user_folder=nothing)
    assert not caught.value.closest


def test_an_unknown_name_gets_the_closest_and_the_way_out(nothing):
    with pytest.raises(UnknownNameError) as caught:
        find("NVIDIA H100 90GB", user_folder=nothing)
    assert caught.value.closest[0] == "h100-sxm5-80gb"
    assert str(caught.value) == (
        "unknown device 'NVIDIA H100 90GB'; closest: "
        + ", ".join(caught.value.closest)
        + ". Run 'gambrel hardware list', or give --peak 989T --bandwidth 3.35T."
    )


@pytest.mark.parametrize("name", ["", " ", "NVIDIA", "gpu", "§", "x" * 5000, "\0"])
def test_a_name_that_says_nothing_is_unknown(name, nothing):
    with pytest.raises(UnknownNameError, match="unknown device"):
        find(name, user_folder=nothing)


@pytest.mark.parametrize("name", ["Quadro RTX 6000", "NVIDIA Quadro RTX 6000"])
def test_a_quadro_is_not_its_successor(name, nothing):
    """The Quadro RTX 6000 is a Turing card with a fifth of the RTX 6000 Ada's peak."""
    assert find(name, user_folder=nothing).device.architecture.startswith("Turing")
    assert find("RTX 6000 Ada", user_folder=nothing).device.architecture.startswith("Ada")


def test_a_quadro_that_is_not_there_is_no_other_card(nothing):
    with pytest.raises(UnknownNameError):
        find("Quadro RTX 3000", user_folder=nothing)


@pytest.mark.parametrize("name", ["AMD H100", "Intel A100", "GeForce MI300X"])
def test_a_name_with_the_wrong_maker_is_unknown(name, nothing):
    with pytest.raises(UnknownNameError):
        find(name, user_folder=nothing)


def test_every_id_name_and_alias_finds_its_device(nothing):
    for device in catalog.list_devices():
        for name in (device.id, device.name, *device.aliases):
            assert find(name, user_folder=nothing).device.id == device.id


@given(
    st.sampled_from(sorted(catalog.index().vendors)),
    st.sampled_from(["-", "_", " "]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_case_separators_and_order_do_not_matter(device_id, separator, upper, random):
    words = device_id.split("-")
    random.shuffle(words)
    text = separator.join(words)
    assert set(name_key(text.upper() if upper else text).keys) & set(name_key(device_id).keys)


@given(st.text())
def test_no_text_breaks_a_key(text):
    assert all(key == key.lower() and " " not in key for key in name_key(text).keys)


OWN = """
id = "my-board"
name = "My Board"
aliases = ["a100"]
[[ceilings]]
engine = "matrix"
dtype = "int8"
flop_per_s = "26T"
"""


def test_a_users_device_comes_before_the_catalog(tmp_path):
    (tmp_path / "mine.toml").write_text(OWN)
    match = find("My-Board", user_folder=tmp_path)
    assert match.device.id == "my-board"
    assert match.note == "my-board is your own device file."
    assert find("a100", user_folder=tmp_path).device.id == "my-board"


def test_a_broken_file_of_the_user_is_reported_and_hurts_nothing_else(tmp_path):
    (tmp_path / "bad.toml").write_text("id = 3")
    devices, problems = user_devices(tmp_path)
    assert devices == ()
    assert len(problems) == 1
    assert "bad.toml: the file lacks 'name'." in find("t4", user_folder=tmp_path).note
    with pytest.raises(UnknownNameError, match=r"bad\.toml: the file lacks 'name'"):
        find("nonsense", user_folder=tmp_path)


def test_the_users_folder_is_gambrels_own():
    assert user_devices_folder().parts[-2:] == ("gambrel", "hardware")


def test_a_file_is_read_by_its_path(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    match = find(str(path))
    assert match.device.id == "my-board"
    assert str(path) in match.note
    with pytest.raises(FileFormatError, match="No such file"):
        find(str(tmp_path / "other.toml"))


def test_two_numbers_make_a_device_whose_roof_holds_for_everything():
    device = from_peaks(989e12, 3.35e12)
    for work_class in ("matrix", "vector"):
        for dtype in ("fp64", "fp16", "int8"):
            roof = resolve(device, work_class, dtype)
            assert (roof.flop_per_s, roof.dtype, roof.note) == (989e12, dtype, "")
    assert device.level("DRAM").byte_per_s == 3.35e12
    assert device.level("DRAM").capacity_bytes is None
    assert device.notes == (
        "One compute roof, 989 TFLOP/s, holds for every number format and for matrix and vector "
        "work alike; the memory capacity is unknown.",
    )


def test_two_numbers_and_a_format_hold_for_that_format_alone():
    device = from_peaks(1e12, 1e11, name="mine", dtype="half")
    assert resolve(device, "matrix", "fp16").flop_per_s == 1e12
    assert resolve(device, "matrix", "fp32") is None
    assert "fp16 alone" in device.notes[0]


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), "989T"])
def test_peaks_must_be_positive_and_finite(bad):
    with pytest.raises(InputError, match=r"a peak of .* is not a positive, finite number"):
        from_peaks(bad, 1e12)
    with pytest.raises(InputError, match=r"a bandwidth of .* is not a positive, finite number"):
        from_peaks(1e12, bad)


def test_peaks_of_an_unknown_format_are_refused():
    with pytest.raises(UnknownNameError, match="unknown precision 'fp17'"):
        from_peaks(1e12, 1e11, dtype="fp17")


def _modules_after(code):
    script = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_a_look_up_reads_one_file_and_loads_nothing_heavy():
    code = (
        "import pathlib, msgspec\n"
        "from gambrel.device import catalog, lookup\n"
        "from gambrel.device.model import Device\n"
        "real, seen = msgspec.json.decode, []\n"
        "def decode(raw, *rest, **more):\n"
        "    made = real(raw, *rest, **more)\n"
        "    seen.append(getattr(made, 'id', None))\n"
        "    return made\n"
        "catalog.msgspec.json.decode = decode\n"
        "lookup.find('a100', user_folder=pathlib.Path('/nonexistent'))\n"
        "assert [x for x in seen if x] == ['a100-sxm4-80gb'], seen"
    )
    loaded = _modules_after(code)
    assert not {"numpy", "rapidfuzz", "torch", "rich", "typer"} & set(loaded)


def test_the_closest_names_need_the_matcher():
    code = (
        "from gambrel.device.lookup import find\n"
        "from gambrel.errors import UnknownNameError\n"
        "try: find('h10')\n"
        "except UnknownNameError: pass"
    )
    assert "rapidfuzz" in _modules_after(code)  # so the test above can fail


def test_the_hint_is_the_promised_one():
    assert HINT == "Run 'gambrel hardware list', or give --peak 989T --bandwidth 3.35T."


@pytest.mark.parametrize(
    ("name", "meant"),
    [("intel-npu", "intel-npu-lunar-lake"), ("snapdragon", "snapdragon-8-elite"),
     ("jetson", "jetson-orin-nx-8gb")],
)  # fmt: skip
def test_part_of_a_name_is_answered_with_the_names_that_hold_it(name, meant):
    with pytest.raises(UnknownNameError, match=meant):
        find(name)
