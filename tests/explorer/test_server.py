"""The server: who may ask, and what an answer is. One server for all of them."""

import http.client
import re
import threading

import msgspec
import pytest

from gambrel.errors import InputError
from gambrel.explorer import sessions
from gambrel.explorer.server import ExplorerServer
from gambrel.explorer.sessions import DeskWorker

STATE = {"verb": "analyze", "given": {"model": "resnet18", "hardware": "l4"}}


@pytest.fixture(scope="module")
def server():
    made = ExplorerServer(STATE)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.close()


def request(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer, text


def asked(server, body, path="/ask", **headers):
    own = {"X_Gambrel_Token": server.token, "X_Gambrel_Session": "test"}
    return request(server, "POST", path, body, **own | headers)


def test_the_token_opens_the_page_and_is_kept_in_a_cookie(server):
    answer, _ = request(server, "GET", f"/?token={server.token}")
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    answer, page = request(server, "GET", "/", Cookie=cookie.partition(";")[0])
    assert answer.status == 200
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page.decode())[1]
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy
    assert b"resnet18" in page


def test_an_answer(server):
    answer, text = asked(server, msgspec.json.encode({**STATE, "brief": True}))
    assert answer.status == 200
    assert msgspec.json.decode(text)["page"]["type"] == "gambrel/analysis"
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {}, 403),
        ("GET", "/?token=wrong", {}, 403),
        ("GET", "/", {"Cookie": "\x7f=;;=x"}, 403),
        ("GET", "/etc/passwd", {}, 404),
        ("GET", "/", {"Host": "evil.example"}, 404),
        ("POST", "/ask", {"X_Gambrel_Token": "wrong"}, 403),
        ("POST", "/ask", {"Host": "evil.example"}, 403),
        ("POST", "/ask", {"Origin": "http://evil.example"}, 403),
        ("POST", "/ask", {"Origin": "null"}, 403),
        ("POST", "/other", {}, 404),
        ("POST", "/ask", {"Content_Length": "99999999999"}, 413),
        ("POST", "/ask", {"Content_Length": "-1"}, 411),
    ],
)
def test_nobody_else_is_served(server, method, path, headers, status):
    own = {"X_Gambrel_Token": server.token, "X_Gambrel_Session": "test"} if method == "POST" else {}
    answer, text = request(
        server, method, path, b"{}" if method == "POST" else None, **own | headers
    )
    assert answer.status == status
    assert server.token.encode() not in text


def test_what_is_no_request_is_refused(server):
    for body in (b"", b"[1]", b"\xff", b'{"verb": '):
        assert asked(server, body)[0].status == 400
    answer, text = asked(server, msgspec.json.encode(STATE), X_Gambrel_Session="")
    assert (answer.status, text) == (200, b'{"error":"a page names its session."}')


def test_a_worker_that_takes_too_long_is_replaced(tmp_path):
    worker = DeskWorker(tmp_path, trust=False, seconds=0.05)  # less than it takes to start
    try:
        late = msgspec.json.decode(worker.ask(msgspec.json.encode(STATE)))
        assert late["error"].startswith("no answer within 0.05 s")
        worker._seconds = 60
        again = msgspec.json.decode(worker.ask(msgspec.json.encode({**STATE, "brief": True})))
        assert again["page"]["title"].startswith("resnet18")
    finally:
        worker.close()


def test_the_page_that_asked_longest_ago_makes_room(monkeypatch):
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 1)
    all_ = sessions.Sessions(trust=False)
    try:
        first = all_.of("first")
        (first.folder / "sent").write_text("a file of the page")
        assert all_.of("first") is first
        all_.of("second")
        assert not first.folder.exists()
    finally:
        all_.close()


def test_nothing_is_started_once_the_server_stops():
    all_ = sessions.Sessions(trust=False)
    all_.close()
    for late in (lambda: all_.of("late"), lambda: all_.first(b"{}")):
        with pytest.raises(InputError, match="has stopped"):
            late()


def test_a_model_that_there_is_not_opens_nothing(capsys):
    from gambrel.cli import run

    assert run(["explore", "nosuchmodel", "--no-browser"]) == 2
    said = capsys.readouterr().err
    assert "unknown model 'nosuchmodel'" in said
    assert "http://" not in said
