"""A headless Chromium, driven over its debugging pipe (`--remote-debugging-pipe`): no package, no port, no download.

Messages are JSON, each ended by a zero byte, on file descriptors 3 and 4 of the browser (Chrome DevTools Protocol).
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find() -> str | None:
    """Path of an installed browser."""
    wished = os.environ.get("WMMADIAG_CHROMIUM")
    return wished or next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One browser process with one page; `with Browser() as browser`."""

    def __init__(self, executable: str, timeout: float = 30.0) -> None:
        self.timeout = timeout
        self.events: list[dict] = []
        self._number = 0
        self._buffer = b""
        self._profile = tempfile.mkdtemp(prefix="wmmadiag-chromium-")
        ours_read, theirs_write = os.pipe()
        theirs_read, ours_write = os.pipe()
        self._read, self._write = ours_read, ours_write
        flags = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--disable-component-update",
            "--no-default-browser-check",
            f"--user-data-dir={self._profile}",
            "about:blank",
        ]

        def wire() -> None:
            # Through high numbers first: one of the pipes may already be 3 or 4.
            os.dup2(theirs_read, 103)
            os.dup2(theirs_write, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self._process = subprocess.Popen(
            [executable, *flags],
            preexec_fn=wire,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_read)
        os.close(theirs_write)
        self._session = ""
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and everything that it started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, 9)
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **parameters: object) -> dict:
        """One command of the protocol; its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.timeout
        while True:
            answer = self._next(end)
            if answer is None:
                raise TimeoutError(f"{method} got no answer")
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _next(self, end: float) -> dict | None:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(line)

    def open(self, path: Path, width: int = 1280, height: int = 900, *, dark: bool = False, scale: float = 1) -> None:
        """Show a page of the file system and wait until its maps in view are drawn."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        wished = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wished.items()]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.until("document.readyState === 'complete'")

    def value(self, expression: str) -> object:
        """What a JavaScript expression gives, as data."""
        made = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in made:
            raise RuntimeError(made["exceptionDetails"].get("exception", {}).get("description", "script failed"))
        return made["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + self.timeout
        while not self.value(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"never became true: {expression}")
            time.sleep(0.02)

    def move(self, x: float, y: float) -> None:
        """Move the mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        """Click the left button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, name: str) -> None:
        """Press and release a key, by its DOM name."""
        code = {"ArrowRight": 39, "ArrowLeft": 37, "ArrowUp": 38, "ArrowDown": 40, "Tab": 9, "Enter": 13}[name]
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def requests(self) -> list[str]:
        """What was fetched, or tried to be, since the page was opened."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and the log (Content-Security-Policy, failed loads)."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(str(parameters["args"]))
            elif event["method"] == "Log.entryAdded":
                found.append(str(parameters["entry"]))
        return found
