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
        (HEAD + FOUR, "ndp120", "no row of"),
        ("model,ms,seq\nbert-base,3,0\n", "h100", "seq is 0"),
        ("model,ms\nresnet50,0.001\n", "h100", "faster than the speed of light of resnet50"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(tmp_path, gambrel, text, device, said):
    done = gambrel("calibrate", written(tmp_path, text), "-d", device)
    assert done.code == 2
    assert said in done.err


#: Published by MLPerf Inference v3.0 and v4.1 and by Ultralytics, or round figures: only that times
#: follow them is tested.
ROWS = "resnet50,1,2.0,fp16\nmobilenet-v2,1,1.1,fp16\nvit-b-16,1,4.4,fp16\nbert-base,1,2.9,fp16\n"


@pytest.mark.parametrize(
    ("device", "runtime", "precision"),
    [
        ("l4", "tensorrt", "fp16"),  # an engine's constants
        ("a100", "pytorch", "fp16"),  # kernels and their host
        ("xeon-8480+", "openvino", "bf16"),
        ("graviton4", "onnxruntime", "fp32"),  # nothing but roofs
        ("hailo-8", "hailort", "int8"),
    ],
)
def test_any_class_of_device_takes_whole_models(tmp_path, gambrel, device, runtime, precision):
    rows = (row.split(",") for row in ROWS.replace("fp16", precision).splitlines())
    text = "".join(f"{m},{b},{20 * float(ms)},{p}\n" for m, b, ms, p in rows)
    asked = ("-d", device, "--runtime", runtime)
    done = gambrel("calibrate", written(tmp_path, HEAD + text), *asked)
    assert done.code == 0, done.err
    assert "mean error" in done.out
    answer = gambrel("analyze", "resnet50", *asked, "--precision", precision, "--json")
    total = json.loads(answer.out)["total"]
    assert total["expected_low_s"] <= 40e-3 <= total["expected_high_s"]


def test_a_sweep_says_what_an_analysis_says_after_a_calibration(tmp_path, gambrel):
    asked = ("-d", "a100", "--runtime", "pytorch", "--precision", "fp16")
    gambrel("calibrate", written(tmp_path, HEAD + ROWS.replace("2.0", "20")), *asked[:4])
    one = gambrel("analyze", "resnet50", *asked, "--batch", "8", "--json")
    many = gambrel("sweep", "resnet50", *asked, "--batch", "1,8", "--json")
    swept = json.loads(many.out)["columns"]["expected_time_s"][1]
    assert swept == pytest.approx(json.loads(one.out)["total"]["expected_time_s"], rel=1e-9)


def test_a_language_model_is_calibrated_at_its_sizes(tmp_path, gambrel):
    text = "model,phase,context,precision,ms\nllama-3-8b,decode,512,q4_0,900\n"
    done = gambrel(
        "calibrate", written(tmp_path, text), "-d", "raspberry-pi-5", "--runtime", "llama-cpp"
    )
    assert done.code == 0, done.err
    asked = ("--phase", "decode", "--context", "512", "--precision", "q4_0", "--json")
    answer = gambrel(
        *("analyze", "llama-3-8b", "-d", "raspberry-pi-5", "--runtime", "llama-cpp"), *asked
    )
    assert json.loads(answer.out)["total"]["expected_time_s"] == pytest.approx(0.9, rel=0.1)


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


NAMED = "model,batch,ms,precision,device,runtime\n"


def test_the_file_names_its_device_and_runtime(tmp_path, gambrel):
    text = NAMED + "resnet50,1,9.1,int8,rk3576,rknn\nyolov8n,1,21.3,int8,rk3576,rknn\n"
    done = gambrel("calibrate", written(tmp_path, text))
    assert done.code == 0, done.err
    assert "rk3576, rknn, 2 models" in done.out


def test_rows_of_another_device_or_runtime_are_left_out(tmp_path, gambrel):
    rows = ("resnet50,1,9.1,int8,rk3576,rknn", "yolov8n,1,21.3,int8,rk9999,rknn",
            "yolov5s,1,7,int8,hailo-8,rknn", "resnet18,1,4,int8,rk3576,qnn")  # fmt: skip
    path = written(tmp_path, NAMED + "\n".join(rows) + "\n")
    done = gambrel("calibrate", path, "--hardware", "rk3576", "--json")
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert [c["points"] for c in answer["classes"]] == [1]
    (said,) = answer["warnings"]
    for words in (
        "3 row(s)",
        "row 3: measured on 'rk9999', not on rk3576",
        "row 4: measured on 'hailo-8', not on rk3576",
        "row 5: measured under qnn, not under rknn",
    ):
        assert words in said


def test_a_file_without_a_device_needs_one(tmp_path, gambrel):
    done = gambrel("calibrate", written(tmp_path, HEAD + FOUR))
    assert done.code == 2
    assert "needs the device: --device NAME" in done.err


def test_a_calibrated_stream_says_whose_runs_it_rests_on(tmp_path, gambrel):
    text = "model,batch,ms,precision\nresnet50,8,20,int8\nmobilenet-v2,8,6,int8\n"
    done = gambrel("calibrate", written(tmp_path, text), "-d", "hailo-15l")
    assert done.code == 0, done.err
    answer = gambrel("analyze", "resnet50", "-d", "hailo-15l", "--batch", "8", "--verbose").out
    assert "2 rates of 2 models on this chip" in " ".join(answer.split())
