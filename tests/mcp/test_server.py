"""The server over both transports, asked by the SDK's own client."""

import http.client
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import gambrel
from gambrel.cli import run
from gambrel.device.catalog import list_devices
from gambrel.errors import GambrelError
from gambrel.mcp import tools
from tests.mcp.conftest import COMMAND, ask, listed

LOOK_UP = {"devices", "device", "models", "runtimes", "explain"}
TOOLS = LOOK_UP | {"analyze", "recommend", "what_if", "check", "compare", "select"}
TOOLS |= {"serve_plan", "serve_sim", "serve_split", "train_plan", "train_search", "kv_cache"}
TOOLS |= {"judge", "limits", "explain_gap", "sweep", "design"}

SERVE = {
    "model": "llama-3.1-8b",
    "hardware": ["h100"],
    "input": "1k",
    "output": "256",
    "tpot": "30ms",
    "prices": {"h100": 3.5},
    "max_devices": 2,
    "layouts": 2,
    "top": 2,
}

#: Every tool once, as an agent would call it.
CALLS = [
    ("analyze", {"model": "resnet50", "hardware": "a100", "batch_size": 8}),
    ("recommend", {"model": "resnet50", "hardware": "a100"}),
    ("what_if", {"model": "resnet50", "hardware": "a100", "change": ["precision=int8", "fuse"]}),
    ("check", {"model": "resnet50", "hardware": "jetson-orin-nano", "latency": "2ms"}),
    ("compare", {"model": ["yolov8n"], "hardware": ["l4", "t4"], "batch_size": [1, 8]}),
    ("select", {"model": "yolov8n", "latency": "33ms", "power": "15W", "top": 3}),
    ("device", {"hardware": "H100"}),
    ("devices", {"category": "edge"}),
    ("models", {"text": "llama"}),
    ("explain", {"term": "ridge point", "hardware": "h100"}),
]


def test_every_tool_answers_as_the_api_does(place):
    results = ask(place, CALLS)
    assert [r.is_error for r in results] == [False] * len(CALLS)
    analyzed, advised, moved, checked, compared, selected, shown, edge, models, explained = (
        r.structured_content for r in results
    )

    analysis = gambrel.analyze("resnet50", "a100", batch_size=8)
    total = analyzed["total"]
    assert total["flops"] == analysis.flops
    assert total["bound"] == analysis.bound.value
    assert total["sol_time_s"] == analysis.sol_time_s
    assert total["roofline_time_s"] == analysis.roofline_time_s
    assert total["expected_time_s"]["value"] == analysis.expected_time_s.value
    assert total["limited_by"] == analysis.limited_by.value
    assert analyzed["runtime"] == analysis.runtime
    assert analyzed["model"]["symbols"] == {"batch": 8, "image": 224}
    assert len(analyzed["ops"]) == 10
    assert (analyzed["type"], analyzed["schema_version"]) == ("gambrel/analysis", 2)
    longest = sorted(analysis.folded(), key=lambda op: -op.measures.expected_time_s.value)
    assert [op["name"] for op in analyzed["ops"]] == [op.name for op in longest[:10]]
    assert analyzed["left_out"] > 0

    found = gambrel.analyze("resnet50", "a100").recommend()
    assert [r["changes"] for r in advised["recommendations"]] == [list(r.changes) for r in found]
    assert [r["gain"] for r in advised["recommendations"]] == [r.gain for r in found]

    assert moved["gain"] == gambrel.what_if("resnet50", "a100", ["precision=int8", "fuse"]).gain
    assert moved["after"]["precision"] == "int8"

    told = gambrel.check("resnet50", "jetson-orin-nano", latency="2ms")
    assert (checked["verdict"], checked["proof"]) == (told.verdict.value, told.proof)
    assert checked["constraints"][0]["limit"] == 0.002
    assert checked["runtime"] in {t["runtime"] for t in checked["tried"]}

    assert {r["hardware"] for r in compared["rows"]} == {"l4", "t4"}
    assert compared["left_out"] == 0
    assert all(r["runtime"] for r in compared["rows"])
    assert set(compared["rows"][0]["figures"]) == set(compared["metrics"])

    groups = ("meets", "unknown", "over_power", "near")
    counted = sum(len(selected[g]) for g in groups) + len(selected["failed"])
    modes = sum(len(device.modes) for device in list_devices())
    assert counted + selected["left_out"] == len(list_devices()) + modes

    assert shown["id"] == "h100-sxm5-80gb"
    assert {c["dtype"] for c in shown["ceilings"]} >= {"fp16", "fp8"}
    assert any("ridge point 295" in text for text in shown["explained"])
    assert len(edge["devices"]) > 5
    assert all("llama" in m["name"] for m in models["models"])
    assert list(explained["terms"]) == ["ridge_point"]


def test_what_an_agent_can_ask_of_a_model_python_can():
    assert set(gambrel.__all__) >= TOOLS - LOOK_UP
    op = "matmul:m=4096,n=4096,k=4096,bf16"
    judged = gambrel.judge(op, "250us", "h100")
    assert gambrel.limits(op, "h100").sol_time_s == judged.limits.sol_time_s
    assert gambrel.explain_gap(op, "250us", "h100").steps
    advice = gambrel.recommend("resnet50", "a100")
    assert [r.gain for r in advice.recommendations] == [
        r.gain for r in gambrel.analyze("resnet50", "a100").recommend()
    ]


def test_sweeps_and_designs_are_those_of_the_api(place):
    points = {"model": "resnet50", "hardware": "h100,a100", "batch_size": "1,8,64"}
    designs = {"model": "resnet50", "device_file": "tpu-v1-like", "axes": ["rows=64:256:x2"]}
    swept, designed = (
        r.structured_content
        for r in ask(place, [("sweep", points | {"top": 4}), ("design", designs)])
    )
    found = gambrel.sweep("resnet50", "h100,a100", batch_size=[1, 8, 64])
    rates = sorted(found.items_per_s, reverse=True)
    assert [row["items_per_s"] for row in swept["table"]] == pytest.approx(rates[:4])
    assert (swept["asked"], swept["rows"], swept["left_out"]) == (6, 6, 2)
    assert swept["column_units"]["expected_time_s"] == "s"
    study = gambrel.design("tpu-v1-like", "resnet50", axes=["rows=64:256:x2"])
    assert designed["designs"]["asked"] == study.sweep.points == 3
    assert designed["chosen"]["rows"] == study.chosen["rows"]
    assert designed["layers"][0]["name"] == study.layers[0].name


def test_plans_are_those_of_the_api(place):
    served, cached = (
        r.structured_content
        for r in ask(
            place,
            [
                ("serve_plan", SERVE),
                ("kv_cache", {"model": "llama-3.1-8b", "hardware": "h100", "batch_size": 64}),
            ],
        )
    )
    plan = gambrel.serve_plan(
        "llama-3.1-8b",
        "h100",
        input="1k",
        output=256,
        tpot="30ms",
        prices=3.5,
        max_devices=2,
        layouts=2,
    )
    best = plan.best[0]
    point = served["best"][0]["point"]
    assert point["tokens_per_s"] == best.point.tokens_per_s
    assert served["best"][0]["tpot"]["high"] == best.tpot.high
    assert served["best"][0]["cost_per_million"] == best.cost_per_million
    assert point["memory"]["weights_bytes"] == best.point.memory.weights_bytes
    assert len(served["pareto"]) <= 2
    # 32 layers x 2 x 8 heads x 128 x 2 bytes = 131,072 bytes a token; 64 sequences of 8,192.
    assert cached["cache"]["logical_bytes"] == 131072 * 64 * 8192
    assert cached["cache"]["parts"][0]["bytes_per_token"] == 4096
    room = gambrel.kv_cache("llama-3.1-8b", hardware="h100", batch_size=64).room
    assert (cached["room"]["batch"], cached["fits"]) == (room.batch, room.batch >= 64)


def test_the_command_of_a_plan_gives_its_figures(address, capsys):
    (served,) = (r.structured_content for r in ask(address, [("serve_plan", SERVE)]))
    assert run([*served["command"].split()[1:], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"][0]["tokens_per_s"] == served["best"][0]["point"]["tokens_per_s"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("compare", {"model": ["resnet50"], "hardware": ["a100"]}),
        ("select", {"model": "resnet50", "hardware": ["a100"], "latency": "5ms"}),
    ],
)
def test_sparse_and_engine_reach_every_comparison(address, tool, arguments):
    plain, sparse, other = (
        r.structured_content
        for r in ask(
            address,
            [
                (tool, arguments | {"batch_size": [64]} if tool == "compare" else arguments),
                (
                    tool,
                    arguments
                    | ({"batch_size": [64]} if tool == "compare" else {})
                    | {"sparsity": True},
                ),
                (tool, arguments | {"engine": "vector"}),
            ],
        )
    )
    assert plain != sparse
    assert "--sparse" in sparse["command"]
    assert "--engine vector" in other["command"]
    assert "--runtime" not in plain["command"]


def test_the_command_of_an_answer_gives_its_figures(place, capsys):
    analyzed, checked = (
        r.structured_content for r in ask(place, [CALLS[0], ("check", dict(CALLS[3][1]))])
    )
    assert run([*analyzed["command"].split()[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["flops"] == analyzed["total"]["flops"]
    run([*checked["command"].split()[1:], "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["constraints"][0]["figure"]["value"] == checked["constraints"][0]["figure"]["value"]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("analyze", {"model": "resnet5000x", "hardware": "a100"}, "unknown model"),
        ("analyze", {"model": "resnet50", "hardware": "h1000"}, "closest: h100-sxm5-80gb"),
        ("analyze", {"model": "m.py:build", "hardware": "a100"}, "this server does not run"),
        ("analyze", {"model": "os:system", "hardware": "a100"}, "this server does not run"),
        ("compare", {"model": ["m.py:build"], "hardware": ["l4"]}, "this server does not run"),
        ("select", {"model": "m.py:build", "latency": "1s"}, "this server does not run"),
        ("check", {"model": "resnet50", "hardware": "a100", "latency": "10"}, "has no unit"),
        ("check", {"model": "resnet50", "hardware": "a100", "latency": "-1ms"}, "latency"),
        ("check", {"model": "resnet50", "hardware": "a100"}, "at least one limit"),
        ("select", {"model": "resnet50"}, "at least one limit"),
        ("what_if", {"model": "resnet50", "hardware": "l4", "change": ["go"]}, "unknown change"),
        ("explain", {"term": "bogus"}, "unknown term 'bogus'"),
        ("serve_plan", SERVE | {"input": "many"}, "is not a number of tokens"),
        ("serve_plan", SERVE | {"tpot": "30"}, "unit"),
        ("kv_cache", {"model": "resnet50"}, "unknown language model"),
        (
            "analyze",
            {"model": "resnet50", "hardware": "l4", "batch_size": 0},
            "batch_size: 0 is not",
        ),
        ("analyze", {"model": "resnet50"}, "hardware"),
        ("analyze", {"model": "resnet50", "hardware": "l4", "batch": 1}, "unknown argument"),
        ("analyze", {"model": "resnet50", "hardware": {"x": 1}}, "is not a device"),
        ("analyse", {}, "unknown tool"),
        ("analyze", {"model": "resnet50", "hardware": "l4", "runtime": "fast"}, "unknown runtime"),
    ],
)
def test_errors_say_what_to_do(address, tool, arguments, message):
    (result,) = ask(address, [(tool, arguments)])
    assert result.is_error
    assert message in result.content[0].text
    assert "Traceback" not in result.content[0].text


def test_a_failed_call_does_not_end_the_session(place):
    bad, good = ask(place, [("analyze", {"model": "x", "hardware": "y"}), CALLS[0]])
    assert bad.is_error
    assert not good.is_error


def test_every_number_of_every_schema_has_a_unit(place):
    tools = listed(place)
    assert {tool.name for tool in tools} == TOOLS
    bare = []
    for tool in tools:
        assert tool.description
        for schema in (tool.input_schema, tool.output_schema):
            for name, field in fields(schema):
                if numeric(field) and "unit" not in field:
                    bare.append(f"{tool.name}.{name}")
    assert bare == []


def test_the_walk_over_schemas_finds_numbers(address):
    (analyze,) = (t for t in listed(address) if t.name == "analyze")
    assert numeric(dict(fields(analyze.output_schema))["roofline_time_s"])
    assert numeric(dict(fields(analyze.input_schema))["batch_size"])
    assert numeric({"anyOf": [{"type": "number"}, {"type": "null"}]})
    assert not numeric({"type": "string"})


def fields(schema):
    """(name, schema) of every property, also of nested records."""
    for part in [schema, *schema.get("$defs", {}).values()]:
        yield from part.get("properties", {}).items()


def numeric(field):
    kinds = field.get("type")
    if {"number", "integer"} & set([kinds] if isinstance(kinds, str) else kinds or ()):
        return True
    inner = field.get("items"), field.get("additionalProperties"), *field.get("anyOf", ())
    return any(numeric(part) for part in inner if isinstance(part, dict))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_other_hosts_and_origins_are_refused(address, headers, status):
    assert posted(address, headers) == status


def test_a_page_of_this_machine_is_let_in(address):
    place = urlsplit(address).netloc
    assert posted(address, {"Origin": f"http://{place}"}) == 200


def posted(address, headers):
    """Status of an initialize request with these headers."""
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    sent = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    } | headers
    connection.request("POST", url.path, json.dumps(body), sent)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")
def test_only_the_loopback_address_listens(address):
    port = urlsplit(address).port
    # 0.0.0.0 would show as all zeros; /proc writes 127.0.0.1 as 0100007F.
    table = Path("/proc/net/tcp").read_text().splitlines()
    local = [line.split()[1] for line in table if line.split()[3] == "0A"]
    assert [a.split(":")[0] for a in local if int(a.split(":")[1], 16) == port] == ["0100007F"]


def test_a_port_in_use_is_one_sentence(address):
    port = str(urlsplit(address).port)
    done = subprocess.run(
        [*COMMAND, "--http", "--port", port], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_the_extra_it_says_what_to_install():
    code = "import sys; sys.modules['mcp'] = None; from gambrel.cli import run; print(run(['mcp']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "2"
    assert "pip install 'gambrel[mcp]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_other_commands_do_not_load_it():
    code = (
        "import sys; from gambrel.cli import run; run(['models', 'list', 'resnet50']);"
        "print([m for m in sys.modules if m.split('.')[0] in ('mcp', 'pydantic', 'uvicorn')"
        " or m.startswith('gambrel.mcp')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
    # It can fail: the same check sees what the server itself loads.
    served = code.replace("run(['models', 'list', 'resnet50'])", "import gambrel.mcp.server")
    done = subprocess.run(
        [sys.executable, "-c", served], capture_output=True, text=True, timeout=60
    )
    assert "pydantic" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"SECRET": 1, "other": {"SECRET": 2}}'),
        ("a.json", '["SECRET"]'),
        ("a.json", '{"SECRET": SECRET'),
        ("a.toml", 'SECRET = "SECRET"\n[SECRET2]\nx = 1'),
        ("a.toml", "SECRET = SECRET"),
        ("a.txt", "SECRET"),
        ("a.py", 'SECRET = "SECRET"'),
        ("a.csv", "SECRET,SECRET\n1,2"),
    ],
)
@pytest.mark.parametrize(
    ("tool", "argument", "arguments"),
    [
        ("analyze", "model", {"hardware": "h100"}),
        ("analyze", "hardware", {"model": "resnet18"}),
        ("check", "spec", {"model": "resnet18", "hardware": "h100", "latency": "1s"}),
        (
            "serve_plan",
            "topology",
            {"model": "llama-3-8b", "hardware": "h100", "input": 8, "output": 8, "tensor": 2},
        ),
        ("kv_cache", "model", {}),
    ],
)
def test_an_error_is_no_way_to_read_a_file(tmp_path, name, text, tool, argument, arguments):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(GambrelError) as caught:
        tools.TOOLS[tool].call({**arguments, argument: str(path)})
    assert "SECRET" not in str(caught.value)


def test_whoever_runs_the_command_line_is_told_the_wrong_key(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('id = "a"\nname = "A"\nwattage = 3')
    with pytest.raises(GambrelError, match="unknown field 'wattage'"):
        gambrel.analyze("resnet18", path)
