"""A local stand-in for an OpenAI-compatible server: replies by a function, and remembers what it was asked."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# (number of the request, body) -> (status, document or text, headers)
Script = Callable[[int, dict[str, Any]], tuple[int, Any, dict[str, str]]]


def said(text: str) -> tuple[int, Any, dict[str, str]]:
    """A chat completion."""
    return 200, {"choices": [{"message": {"content": text}}], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}, {}


@dataclass
class Served:
    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    # The most requests that were open at once.
    most_open: int = 0


@contextlib.contextmanager
def serve(script: Script) -> Iterator[Served]:
    lock = threading.Lock()
    served = Served("")
    open_now = 0

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            nonlocal open_now
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                open_now += 1
                served.most_open = max(served.most_open, open_now)
                number = len(served.bodies)
                served.bodies.append(body)
                served.headers.append({k.lower(): v for k, v in self.headers.items()})
            status, document, headers = script(number, body)
            data = (document if isinstance(document, str) else json.dumps(document)).encode()
            with lock:
                open_now -= 1
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
