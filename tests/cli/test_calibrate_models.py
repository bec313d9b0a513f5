"""``gambrel calibrate`` with measured models of an NPU."""

import json

import pytest

HEAD = "model,batch,ms,precision\n"
FOUR = (
    "resnet50,1,1.20,int8\nmnasnet-0.5,1,0.70,fp16\n"
    "convnext-tiny,1,4.0,fp16\nreal-esrgan-general,1,5.2,int8\n"
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("gambrel.analysis.estimate.store.folder", lambda: tmp_path / "own")


def written(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    return str(path)


def expected(gambrel, device):
    done = gambrel("analyze", "resnet50", "-d", device, "--precision", "int8", "--json")
    return json.loads(done.out)["total"]["expected_time_s"]


def test_four_models_calibrate_a_chip_and_later_answers_use_it(tmp_path, gambrel):
    before = expected(gambrel, "snapdragon-8-elite")
    done = gambrel("calibrate", written(tmp_path, HEAD + FOUR), "-d", "snapdragon-8-elite")
    assert done.code == 0, done.err
    assert "4 measurements" in done.out
    assert "mean error" in done.out
    after = expected(gambrel, "snapdragon-8-elite")
    assert abs(after - 1.2e-3) < 0.5 * abs(before - 1.2e-3)


def test_one_model_scales_all(tmp_path, gambrel):
    path = written(tmp_path, HEAD + "resnet50,1,10.0,int8\n")
    done = gambrel("calibrate", path, "-d", "snapdragon-8-elite")
    assert done.code == 0, done.err
    assert expected(gambrel, "snapdragon-8-elite") == pytest.approx(10e-3, rel=0.25)


def test_rows_that_cannot_be_right_are_counted_and_named(tmp_path, gambrel):
    bad = (
        "resnet50,1,-3,fp16\nnosuchmodel,1,3,fp16\nresnet50,1,1.20,int8\n"
        "resnet18,1,99999,int8\nresnet18,x,1,int8\n"
    )
    path = written(tmp_path, HEAD + FOUR + bad)
    done = gambrel("calibrate", path, "-d", "snapdragon-8-elite", "--json")
    assert done.code == 0, done.err
    (said,) = json.loads(done.out)["warnings"]
    assert said.startswith("5 row(s) of ")
    for words in ("no time of an inference", "nosuchmodel", "stands there twice", "no number"):
        assert words in said


@pytest.mark.parametrize(
    ("text", "device", "said"),
    [
        ("model,batch\nresnet50,1\n", "snapdragon-8-elite", "one column of times"),
        ("model,ms,us\nresnet50,1,1\n", "snapdragon-8-elite", "one column of times"),
        (HEAD + "nosuchmodel,1,3,int8\n", "snapdragon-8-elite", "no row of"),
        (HEAD + FOUR, "h100", "calibrate NPUs"),
        (HEAD + FOUR, "hailo-8", "calibrate NPUs"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(tmp_path, gambrel, text, device, said):
    done = gambrel("calibrate", written(tmp_path, text), "-d", device)
    assert done.code == 2
    assert said in done.err


def test_a_file_of_models_needs_the_chip(tmp_path, gambrel):
    done = gambrel("calibrate", written(tmp_path, HEAD + FOUR))
    assert done.code == 2
    assert "--device" in done.err


def test_a_file_of_any_length_is_read_and_its_bad_rows_are_counted(tmp_path, gambrel):
    again = "resnet50,1,1.20,int8\n" * 40_000 + "resnet50,1,-1,int8\n" * 20_000
    path = written(tmp_path, HEAD + FOUR + again)
    done = gambrel("calibrate", path, "-d", "snapdragon-8-elite", "--json")
    assert done.code == 0, done.err
    (said,) = json.loads(done.out)["warnings"]
    assert said.startswith("60,000 row(s) of ")
    assert "and 59,995 more" in said


def test_a_null_byte_is_no_traceback(tmp_path, gambrel):
    path = tmp_path / "rows.csv"
    path.write_bytes(HEAD.encode() + b"resnet50,1,1\x00,int8\nresnet50,1,\xff,int8\n")
    done = gambrel("calibrate", str(path), "-d", "snapdragon-8-elite")
    assert done.code == 2
    assert len(done.err.strip().splitlines()) == 1
