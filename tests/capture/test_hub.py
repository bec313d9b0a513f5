"""Models of the hub: from the cache, from a server on loopback that speaks the hub's protocol."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import struct
import threading

import pytest

import gambrel
from gambrel import hub
from gambrel.errors import CaptureError, InputError

pytest.importorskip("huggingface_hub")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 4096,
}
#: Name → shape: 2 tables of 100 x 64, q and o of 64 x 64, k and v of 32 x 64, 3 of 64 x 128, norms.
WEIGHTS = {
    "model.embed_tokens.weight": [100, 64],
    "model.layers.0.self_attn.q_proj.weight": [64, 64],
    "model.layers.0.self_attn.k_proj.weight": [32, 64],
    "model.layers.0.self_attn.v_proj.weight": [32, 64],
    "model.layers.0.self_attn.o_proj.weight": [64, 64],
    "model.layers.0.mlp.gate_proj.weight": [128, 64],
    "model.layers.0.mlp.up_proj.weight": [128, 64],
    "model.layers.0.mlp.down_proj.weight": [64, 128],
    "model.layers.0.input_layernorm.weight": [64],
    "model.layers.0.post_attention_layernorm.weight": [64],
    "model.norm.weight": [64],
    "lm_head.weight": [100, 64],
}
PARAMETERS = 2 * 100 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128 + 3 * 64


def safetensors(dtype, width):
    header, at = {}, 0
    for name, shape in WEIGHTS.items():
        size = functools.reduce(lambda a, b: a * b, shape) * width
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


class Hub(http.server.BaseHTTPRequestHandler):
    """The part of the protocol that reading a description takes."""

    files: dict[str, bytes] = {}  # noqa: RUF012 set by the fixture
    log: list[str] = []  # noqa: RUF012

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.log.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        if self.path.startswith("/api/models/org/tiny/revision/"):
            names = [{"rfilename": name} for name in self.files]
            text = json.dumps({"id": "org/tiny", "sha": COMMIT, "siblings": names}).encode()
            return self.answer(200, text, {"Content-Type": "application/json"})
        name = self.path.partition("/resolve/")[2].partition("/")[2]
        if not self.path.startswith("/org/tiny/") or name not in self.files:
            code = "EntryNotFound" if self.path.startswith("/org/tiny/") else "RepoNotFound"
            return self.answer(404, b"", {"X-Error-Code": code})
        data = self.files[name]
        more = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
        asked = self.headers.get("Range", "")
        if not asked:
            return self.answer(200, data, more)
        first, _, last = asked.removeprefix("bytes=").partition("-")
        part = data[int(first) : int(last) + 1 if last else None]
        more["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
        return self.answer(206, part, more)

    def answer(self, code, data, headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Empty caches of the hub's library and of gambrel, and no network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    hub.folder_of.cache_clear()
    yield tmp_path / "hub"
    hub.folder_of.cache_clear()


@pytest.fixture
def server(cache, monkeypatch):
    from huggingface_hub import constants

    Hub.files, Hub.log = {"config.json": json.dumps(CONFIG).encode(), "README.md": b"x"}, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as running:
        often = {"poll_interval": 0.01}  # seconds until it sees that it is to stop
        thread = threading.Thread(target=running.serve_forever, kwargs=often)
        thread.start()
        at = f"http://127.0.0.1:{running.server_port}"
        template = at + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", at)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield Hub
        running.shutdown()
        thread.join()


def snapshot(cache, **files):
    """A cache as huggingface_hub leaves it."""
    place = cache / "models--org--tiny"
    folder = place / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    (place / "blobs").mkdir()
    for name, data in {"config.json": json.dumps(CONFIG).encode(), **files}.items():
        blob = place / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        (folder / name).symlink_to(f"../../blobs/{blob.name}")
    return folder


def test_a_snapshot_in_the_cache_needs_no_network(cache):
    snapshot(cache, **{"model.safetensors": safetensors("F32", 4)})
    found = gambrel.analyze("org/tiny", "h100", hub=True, seq=128)
    assert found.model.name == "org/tiny"
    assert found.model.parameters == PARAMETERS
    assert "12 tensors of org/tiny" in found.model.origin
    folder = cache / "models--org--tiny" / "snapshots" / COMMIT
    same = gambrel.analyze(str(folder), "h100", seq=128)
    assert (same.model.name, same.total.flops) == ("org/tiny", found.total.flops)


def test_a_configuration_in_the_cache_does_where_the_hub_is_not_reached(cache):
    snapshot(cache)
    found = gambrel.analyze("hf://org/tiny", "h100", seq=128)
    assert found.model.parameters == PARAMETERS
    assert any("no headers of weights" in text for text in found.assumptions)


def test_neither_cache_nor_hub(cache):
    with pytest.raises(CaptureError, match="not in the cache of huggingface_hub") as caught:
        gambrel.analyze("org/tiny", "h100", hub=True)
    assert "\n" not in str(caught.value)


def test_over_the_network_headers_alone_are_read_and_kept(server):
    data = safetensors("F32", 4) + bytes(3_000_000)
    server.files["model.safetensors"] = data
    found = gambrel.analyze("org/tiny", "h100", hub=True, seq=128)
    assert (found.model.name, found.model.parameters) == ("org/tiny", PARAMETERS)
    assert "12 tensors" in found.model.origin
    reads = [line for line in server.log if line.startswith("GET /org/tiny/resolve/")]
    assert all("bytes=0-" in line for line in reads if "safetensors" in line)
    assert not any("README" in line for line in server.log)
    hub.folder_of.cache_clear()
    server.log.clear()
    again = gambrel.analyze("org/tiny", "h100", hub=True, seq=128)
    assert again.total == found.total
    assert server.log == []


def test_plans_take_ids(server):
    plan = gambrel.kv_cache("org/tiny", hub=True, context=1000)
    # keys and values of one layer, 2 heads of 16, two bytes each
    assert plan.cache.logical_bytes == 1000 * 2 * 2 * 16 * 2


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"tiny-Q4_K_M.gguf": b"GGUF"}, "hf download org/tiny tiny-Q4_K_M.gguf"),
        ({"pytorch_model.bin": b"x"}, "has no config.json"),
    ],
)
def test_a_repository_without_configuration(server, files, sentence):
    server.files = files
    Hub.files = files
    with pytest.raises(CaptureError, match=sentence):
        gambrel.analyze("org/tiny", "h100", hub=True)


def test_no_such_repository(server):
    with pytest.raises(CaptureError, match="no org/other on the hub"):
        gambrel.analyze("org/other", "h100", hub=True)


@pytest.mark.parametrize("text", ["../etc/passwd", "a/b/c", "", "a b", "org/..", "http://x/y"])
def test_what_is_no_id(cache, text):
    with pytest.raises(InputError):
        gambrel.analyze(text, "h100", hub=True)


def test_a_file_of_headers_that_is_damaged(server, cache):
    server.files["model.safetensors"] = safetensors("BF16", 2)
    gambrel.analyze("org/tiny", "h100", hub=True)
    path = hub.folder_of("hf://org/tiny") / hub.HEADERS
    for text in ("{", "[]", '{"a": {"b": {}}}'):
        path.write_text(text)
        with pytest.raises(gambrel.GambrelError) as caught:
            gambrel.analyze("org/tiny", "h100", hub=True)
        assert "\n" not in str(caught.value)
