"""browser.py: Chromium without a window, driven over its DevTools pipe with nothing but the standard library.

    with Browser() as browser:
        page = browser.open("file:///tmp/report.html", width=1200, dark=False)
        page.run("document.title")

What the page writes to the console, and every exception in it, is kept in `page.complaints`.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium")
PATIENCE = 120  # seconds for any one answer; machines may be busy


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="attest-chromium-")
        to_read, self.to = os.pipe()
        self.back, from_write = os.pipe()
        # Chromium reads commands from 3 and answers on 4.
        pipes = f"exec \"$@\" 3<&{to_read} 4>&{from_write}"
        self.process = subprocess.Popen(
            ["bash", "-c", pipes, "bash", PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--user-data-dir=" + self.profile, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(to_read, from_write))
        os.close(to_read)
        os.close(from_write)
        self.rest, self.number, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, session=None, **arguments):
        self.number += 1
        message = {"id": self.number, "method": method, "params": arguments}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def read(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.rest:
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            part = os.read(self.back, 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self.rest += part
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def open(self, url, width=1280, height=900, dark=False):
        return Page(self, url, width, height, dark)


class Page:
    def __init__(self, browser, url, width, height, dark):
        self.browser = browser
        self.target = target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        end = time.monotonic() + PATIENCE
        while self.run("document.readyState") != "complete":
            if time.monotonic() > end:
                raise TimeoutError(url)
            time.sleep(0.05)

    def call(self, method, **arguments):
        return self.browser.call(method, self.session, **arguments)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def run(self, script):
        """The value of an expression; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(script + ": " + json.dumps(result["exceptionDetails"])[:500])
        return result["result"].get("value")

    def wait_for(self, script):
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            if time.monotonic() > end:
                raise TimeoutError(script)
            time.sleep(0.05)

    def press(self, key, code=None):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, windowsVirtualKeyCode={"Tab": 9, "Enter": 13, " ": 32}.get(key, 0), **text)

    @property
    def complaints(self):
        self.run("1")
        out = []
        for e in self.browser.events:
            if e.get("sessionId") != self.session:
                continue
            if e["method"] == "Runtime.exceptionThrown":
                out.append(json.dumps(e["params"]["exceptionDetails"])[:400])
            elif e["method"] == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning", "assert"):
                out.append(json.dumps(e["params"]["args"])[:400])
            elif e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] in ("error", "warning"):
                out.append(json.dumps(e["params"]["entry"])[:400])
        return out

    @property
    def requests(self):
        """Addresses that the page asked for."""
        self.run("1")
        return [e["params"]["request"]["url"] for e in self.browser.events if e.get("sessionId") == self.session and e["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path, whole=True):
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(image["data"]))
