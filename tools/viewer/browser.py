"""Draws a splat PLY in a web viewer: headless Chromium, a page of ours around the viewer, a server on this machine for both.

The viewer is Spark (three.js), from npm with pinned versions, below .venv/viewer. Chromium is the system's; it draws with
SwiftShader, so no card is needed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import OPENGL_FROM_OPENCV
from splat_engine.formats.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv" / "viewer"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER_HINT = "Install it: apt-get install --no-install-recommends chromium-headless-shell."
_TYPES = {".html": "text/html", ".js": "text/javascript", ".json": "application/json"}
_LOOPBACK = "127.0.0.1"


def find_browser() -> str:
    """Returns the path of a Chromium.

    Raises:
        UserError: There is none.
    """
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    raise UserError("No Chromium is installed, which the web viewer runs in.", BROWSER_HINT)


def install_viewer(environment: Path = ENVIRONMENT) -> Path:
    """Installs the packages of package.json with npm unless they stand; returns their folder.

    Raises:
        UserError: There is no npm, or it failed.
    """
    wanted = (Path(__file__).parent / "package.json").read_bytes()
    modules, stamp = environment / "node_modules", environment / "installed"
    digest = hashlib.sha256(wanted).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return modules
    npm = shutil.which("npm")
    if npm is None:
        raise UserError(
            "No npm is installed, which brings the web viewer.", "Install it: apt-get install npm."
        )
    environment.mkdir(parents=True, exist_ok=True)
    (environment / "package.json").write_bytes(wanted)
    command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    result = subprocess.run(command, cwd=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise UserError(
            "npm could not install the web viewer.", "Look at npm's words.", result.stderr[-2000:]
        )
    stamp.write_text(digest, encoding="utf-8")
    return modules


def projection_of(camera: Camera) -> NDArray[np.float64]:
    """Returns the [4, 4] OpenGL projection of a perspective camera: clip from camera, clip y up, depth -1 to 1."""
    near, far = max(camera.near, 1e-3), min(camera.far, 1e4)
    matrix = np.zeros((4, 4))
    matrix[0, 0], matrix[0, 2] = 2 * camera.fx / camera.width, 1 - 2 * camera.cx / camera.width
    matrix[1, 1], matrix[1, 2] = 2 * camera.fy / camera.height, 2 * camera.cy / camera.height - 1
    matrix[2, 2], matrix[2, 3] = (far + near) / (near - far), 2 * far * near / (near - far)
    matrix[3, 2] = -1
    return matrix


def view_of(camera: Camera) -> dict[str, Any]:
    """Returns a camera in the page's words."""
    return {
        "width": camera.width,
        "height": camera.height,
        "projection": projection_of(camera).ravel().tolist(),
        "world_from_camera": (camera.world_from_camera @ OPENGL_FROM_OPENCV).ravel().tolist(),
    }


@dataclass
class _Job:
    """What the page asks for, and what it has answered."""

    ply: Path
    modules: Path
    request: bytes
    pictures: dict[int, bytes] = field(default_factory=dict)
    failure: str = ""
    splats: int = -1
    ended: threading.Event = field(default_factory=threading.Event)

    def content(self, path: str) -> tuple[bytes, str] | None:
        """Returns what lies at a path of the page's, and its type."""
        here = Path(__file__).parent
        if path == "/job.json":
            return self.request, _TYPES[".json"]
        files = {"/": here / "page.html", "/page.js": here / "page.js", "/splats.ply": self.ply}
        file = files.get(path)
        if path.startswith("/modules/"):
            file = (self.modules / path.removeprefix("/modules/")).resolve()
            file = file if file.is_relative_to(self.modules.resolve()) else None
        if file is None or not file.is_file():
            return None
        return file.read_bytes(), _TYPES.get(file.suffix, "application/octet-stream")

    def answer(self, path: str, body: bytes) -> None:
        """Takes what the page posts."""
        if path.startswith("/picture/"):
            self.pictures[int(path.removeprefix("/picture/"))] = body
            return
        if path == "/done":
            self.splats = int(json.loads(body)["splats"])
        else:
            self.failure = body.decode("utf-8", "replace")
        self.ended.set()


def _handler(job: _Job) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = job.content(self.path)
            self.send_response(404 if found is None else 200)
            body, kind = found or (b"", "text/plain")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            job.answer(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            """Says nothing: what counts comes back in the job."""

    return Handler


def draw_in_viewer(
    ply: Path,
    cameras: Sequence[Camera],
    *,
    browser: str,
    modules: Path,
    options: dict[str, Any],
    timeout_s: float = 300,
) -> list[NDArray[np.uint8]]:
    """Draws splats from each camera, as the page shows them.

    Args:
        ply: The splats.
        cameras: Perspective ones.
        browser: A Chromium.
        modules: Folder of the viewer's packages.
        options: Of the page's job: "spark" for the viewer's renderer, "mesh" for the splats.
        timeout_s: For all pictures together, seconds.

    Returns:
        [H, W, 4] of each camera, RGBA premultiplied over black, the upper row first.

    Raises:
        UserError: The browser ended, failed or took too long; the cause has its words.
    """
    request = {**options, "views": [view_of(camera) for camera in cameras]}
    job = _Job(ply, modules, json.dumps(request).encode())
    server = ThreadingHTTPServer((_LOOPBACK, 0), _handler(job))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        words = _browse(browser, f"http://{_LOOPBACK}:{server.server_port}/", job, timeout_s)
    finally:
        server.shutdown()
        server.server_close()
    if job.failure or len(job.pictures) != len(cameras):
        reason = "failed" if job.failure else "came to no end"
        raise UserError(f"The web viewer {reason} with {ply}.", "Look at its words.", job.failure or words)
    shaped = (
        np.frombuffer(job.pictures[number], np.uint8).reshape(camera.height, camera.width, 4)[::-1]
        for number, camera in enumerate(cameras)
    )
    return [np.ascontiguousarray(picture) for picture in shaped]


def _browse(browser: str, address: str, job: _Job, timeout_s: float) -> str:
    """Opens the page and waits for its end; returns what the browser said."""
    with tempfile.TemporaryDirectory() as profile, tempfile.TemporaryFile("w+") as log:
        command = [browser, "--headless", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
        command += ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
        command += [
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--enable-logging=stderr",
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium's sandbox refuses root; the page is ours
        process = subprocess.Popen([*command, address], stdout=log, stderr=log)
        try:
            waited_s = 0.0
            while not job.ended.wait(0.5) and process.poll() is None and waited_s < timeout_s:
                waited_s += 0.5
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        log.seek(0)
        return log.read()[-4000:]
