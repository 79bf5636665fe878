"""A real browser without a window, spoken to through a pipe: Debian's chromium."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pytest

from tests.conftest import PATIENCE

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"),
    *("--disable-quic", "--disable-component-update", "--disable-sync"),
)


class Browser:
    """One page, as on a phone; what the page complains of is kept."""

    def __init__(self, profile: Path) -> None:
        """Start it; skip the test where there is none."""
        program = shutil.which("chromium")
        if program is None:
            pytest.skip("chromium is missing: apt-get install chromium")
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.asked_for: list[str] = []
        self.loaded = False

    def __enter__(self) -> Self:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = session["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", **PHONE)
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the DevTools protocol, and give its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, path: Path) -> None:
        """Open a file, and wait until it is loaded."""
        self.loaded = False
        self.call("Page.navigate", url=path.as_uri())
        while not self.loaded:
            self._next()

    def look(self, width: int, scheme: str) -> None:
        """Have a screen of a width, and a light or dark scheme; forget what was said before."""
        size = {"height": 900, "deviceScaleFactor": 1, "mobile": False}
        screen = PHONE if width == PHONE["width"] else {"width": width, **size}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.complaints.clear()
        self.asked_for.clear()

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def ask(self, expression: str) -> Any:
        """Evaluate an expression on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """Take a picture of all of the page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        """Wait for a message, and keep what it complains of."""
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], deadline - time.monotonic())
            assert ready, "the browser says nothing"
            part = os.read(self._from, 1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._hear(message.get("method"), message.get("params", {}))
        return message

    def _hear(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self.loaded = True
        elif (
            method == "Runtime.exceptionThrown"
            or (method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"))
            or (method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"))
        ):
            self.complaints.append(json.dumps(params))
        elif method == "Network.requestWillBeSent":
            self.asked_for.append(params["request"]["url"])
