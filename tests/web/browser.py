"""A Chromium without a screen, driven by its DevTools protocol over a pipe.

    with Browser() as browser:
        page = browser.open("http://127.0.0.1:7490/")
        page.wait("document.querySelectorAll('.row').length > 3")
        page.press("ArrowDown")
        page.shot("tasks.png")

A page remembers what it asked for, what was written to its console and what went wrong in it.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from typing import Any

from fleet import Failed  # tests/support

# For slow machines; whatever is waited for is looked at often.
LIMIT_S = 60.0
BETWEEN_S = 0.02

KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "PageDown": ("PageDown", 34, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
}


def find_chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise Failed("no chromium: scripts/install-deps.sh --tests installs it")


class Browser:
    def __init__(self, *flags: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="warpsmith-browser-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [
            find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={self._folder}", *flags,
        ]  # fmt: skip

        def place() -> None:  # what the protocol wants at 3 and 4
            copies = os.dup(to_read), os.dup(to_write)
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)

        self._process = subprocess.Popen(
            command, preexec_fn=place, pass_fds=(3, 4, to_read, to_write), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._folder, "XDG_CONFIG_HOME": self._folder, "XDG_CACHE_HOME": self._folder},
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._lock = threading.Lock()
        self._number = 0
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _listen(self) -> None:
        rest = b""
        while part := os.read(self._read, 1 << 16):
            *messages, rest = (rest + part).split(b"\0")
            for message in messages:
                self._take(json.loads(message))
        os.close(self._read)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            if waiting := self._answers.pop(message["id"], None):
                waiting.put(message)
        elif page := self._pages.get(message.get("sessionId", "")):
            page.on_event(message["method"], message["params"])

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        with self._lock:
            self._number += 1
            number = self._number
            waiting = self._answers[number] = queue.Queue()
            message = {"id": number, "method": method, "params": parameters}
            if session:
                message["sessionId"] = session
            text = json.dumps(message).encode() + b"\0"
            while text:
                text = text[os.write(self._write, text) :]
        try:
            answer = waiting.get(timeout=LIMIT_S)
        except queue.Empty:
            raise Failed(f"{method}: Chromium does not answer") from None
        if "error" in answer:
            raise Failed(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def open(self, address: str, width: int = 1280, height: int = 800, dark: bool = False) -> Page:
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.look(width, height, dark)
        page.go(address)
        return page


class Page:
    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self.requests: list[str] = []  # addresses
        self.sent: list[dict[str, str]] = []  # their headers
        self.errors: list[str] = []
        self.replies: list[tuple[str, int, dict[str, str]]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def on_event(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
            self.sent.append(parameters["request"]["headers"])
        elif method == "Network.responseReceived":
            reply = parameters["response"]
            self.replies.append((reply["url"], reply["status"], {k.lower(): v for k, v in reply["headers"].items()}))
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(each.get("value", each)) for each in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def look(self, width: int, height: int, dark: bool) -> None:
        """A screen of that size, as a phone where it is narrow, and a theme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def go(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def evaluate(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise Failed(f"{script}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    def wait(self, condition: str, limit_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        while True:
            try:
                if self.evaluate(f"Boolean({condition})"):
                    return
            except Failed as failed:
                if "context" not in str(failed) and "null" not in str(failed) and "undefined" not in str(failed):
                    raise
            if time.monotonic() > deadline:
                raise Failed(f"not within {limit_s:.0f} s: {condition}\n{self.evaluate('document.body.innerText')[:3000]}\n{self.errors}")
            time.sleep(BETWEEN_S)

    def press(self, key: str) -> None:
        name, code, text = KEYS[key] if key in KEYS else (key, ord(key.upper()), key)
        same = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **same)
        self.call("Input.dispatchKeyEvent", type="keyUp", **same)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def shot(self, path: str | pathlib.Path) -> None:
        picture = self.call("Page.captureScreenshot", format="png")
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)
