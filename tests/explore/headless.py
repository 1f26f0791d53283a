"""A headless Chromium driven over its DevTools pipe with the standard library alone."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


_LAUNCH = """
import fcntl, os, sys
high = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(high[0], 3)
os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    """The browser of this machine, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((p for n in names if (p := shutil.which(n))), None)


class Browser:
    """One browser with one page; `events` keeps what the page reported."""

    def __init__(self, program: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        to_read, self._to = os.pipe()
        self._from, from_write = os.pipe()
        # Chromium reads commands on descriptor 3 and writes on 4; both numbers may be taken here.
        ends = [str(to_read), str(from_write)]
        flags = [*FLAGS, f"--user-data-dir={self._profile}", "about:blank"]
        command = [sys.executable, "-c", _LAUNCH, *ends, program, *flags]
        self._process = subprocess.Popen(
            command, pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(from_write)
        self._buffer = b""
        self._next = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        self._next += 1
        message = {"id": self._next, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            answer = self._read(deadline)
            if answer.get("id") == self._next:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])
            if "method" in answer:
                self.events.append(answer)
        raise TimeoutError(method)

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self._from, 1 << 20)
            assert chunk, "the browser has ended"
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(line))

    def open(self, file: Path, fragment: str = "", *, width: int = 1280, height: int = 800, dark: bool = False) -> int:
        """Opens a page and waits until it is drawn; returns the milliseconds that it says this took."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        # A change of the fragment alone would not load the page again.
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=file.as_uri() + (f"#{fragment}" if fragment else ""))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ready = self.js("document.documentElement?.dataset.ready || null")
            if ready is not None:
                return int(ready)
            time.sleep(0.02)
        raise TimeoutError(f"the page was not ready: {self.problems()}")

    def js(self, expression: str) -> Any:
        """The value of an expression on the page; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Presses and lets go of a key."""
        text = key if len(key) == 1 else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        # What follows a key is done in a microtask.
        self.js("new Promise((done) => setTimeout(done, 30))")

    def picture(self, target: Path) -> None:
        """Writes a PNG of the page as it is."""
        target.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def problems(self) -> list[str]:
        """Errors, warnings and violations of the page's policy."""
        self.js("0")
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Every address that the page asked for."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session = None
        try:
            self.call("Browser.close")
        except (TimeoutError, AssertionError, OSError):
            self._process.kill()
        self._process.wait(timeout=20)
        for descriptor in (self._to, self._from):
            os.close(descriptor)
        shutil.rmtree(self._profile, ignore_errors=True)
