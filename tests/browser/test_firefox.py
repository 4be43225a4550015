"""The reader's GPU in Firefox, where it is installed, in software: a script that the server adds presses the button."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest

SITE = Path(__file__).resolve().parents[2] / "build" / "html"
FIREFOX = next(filter(None, map(shutil.which, ("firefox", "firefox-esr"))), None)
SOFTWARE = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")
PREFERENCES = {
    "dom.webgpu.enabled": True,
    "gfx.webgpu.ignore-blocklist": True,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.enabled": False,
}
PRESS = """
addEventListener("load", () => {
  document.querySelector(".fl-gpu button").click();
  const told = setInterval(() => {
    const said = [...document.querySelectorAll(".fl-gpu [role=status]")].map((one) => one.textContent).join(" ");
    const board = document.querySelector(".fl-gpu").textContent;
    if (!(%s)) return;
    clearInterval(told);
    fetch("/told", { method: "POST", body: JSON.stringify({ said, board }) });
  }, 200);
});
"""
pytestmark = pytest.mark.skipif(not (FIREFOX and SOFTWARE.exists()), reason="no Firefox with Mesa's Vulkan here")


def told_by_firefox(page: str, over: str, profile: Path) -> dict[str, str]:
    """Open a page, press its first GPU button, and return what it says when the condition holds."""
    told: Queue[dict[str, str]] = Queue()

    class Pressing(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            press = self.path == "/press.js"  # in a file: the page's policy lets no script in its text run
            if not press and self.path != f"/{page}":
                return super().do_GET()
            script = '<script src="/press.js"></script>'
            body = (PRESS % over).encode() if press else (SITE / page).read_bytes() + script.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/javascript" if press else "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)
            return None

        def do_POST(self) -> None:
            told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

    lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items())
    (profile / "user.js").write_text("".join(lines))
    environment = {**os.environ, "HOME": str(profile), "VK_DRIVER_FILES": str(SOFTWARE)}
    with ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: Pressing(*given, directory=SITE)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{page}"
        command = [FIREFOX, "--headless", "--no-remote", "--profile", str(profile), address]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, env=environment, **quiet) as firefox:
            try:
                return told.get(timeout=120)
            finally:
                firefox.terminate()
                server.shutdown()


def test_it_measures(tmp_path: Path) -> None:
    told = told_by_firefox("your_gpu.html", "/^(Done|Stopped|It failed)/.test(said)", tmp_path)
    assert told["said"].startswith("Done"), told["said"]
    assert "This is your CPU" in told["board"]
    for experiment in ("Adding two arrays", "The roofline of this GPU", "Transfers"):
        assert experiment in told["board"]


def test_it_sees_first_light(tmp_path: Path) -> None:
    page = "tutorials/4_imaging/01_first_light.html"
    told = told_by_firefox(page, "/step \\d\\d|frames/.test(board)", tmp_path)
    assert "frames of the same fit" not in told["board"], told["said"]
    assert "This is your CPU" in told["said"]
