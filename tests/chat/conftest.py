"""A server that speaks the chat-completions protocol, in place of a remote service."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Server:
    """Answers each request with the next of its replies, and keeps what it was asked.

    A reply is a message, a status code, raw bytes, or a number of seconds to be silent.
    """

    def __init__(self):
        self.replies, self.asked, self.keys = [], [], []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                size = int(self.headers["Content-Length"])
                owner.asked.append(json.loads(self.rfile.read(size)))
                owner.keys.append(self.headers["Authorization"])
                owner.paths = self.path
                reply = owner.replies.pop(0)
                if isinstance(reply, float):
                    time.sleep(reply)
                    reply = b"late"
                status, body = (reply, b"{}") if isinstance(reply, int) else (200, reply)
                if isinstance(body, dict):
                    body = json.dumps(envelope(body)).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # the client gave up

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        often = {"poll_interval": 0.01}  # seconds until it sees that it is to stop
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs=often, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_port}/v1"

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


def envelope(message):
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "double",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
        ],
    }


def says(text):
    return {"content": text}


def calls(name, **arguments):
    return calls_raw(name, json.dumps(arguments))


def calls_raw(name, arguments):
    function = {"name": name, "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()
