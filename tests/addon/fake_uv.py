#!/usr/bin/env python3
"""A stand-in for uv, and for the Python that it makes: used by tests of the engine's set-up, run as a program.

``FAKE_UV`` says what goes wrong, as STEP:FAULT, where STEP is version, venv, install or doctor and FAULT is ``hang`` (until
it is killed, with a child that holds its output open), or the text that it fails with. What it was called with is added
to calls.jsonl beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def fail_as_told(step: str) -> None:
    """Does what FAKE_UV says for a step."""
    wanted, _, fault = os.environ.get("FAKE_UV", "").partition(":")
    if wanted != step:
        return
    if fault == "hang":
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        )
        print(f"hanging {os.getpid()} {child.pid}", flush=True)
        child.wait()
    print(fault, flush=True)
    sys.exit(2)


def main(arguments: list[str]) -> None:
    """Answers a command line."""
    step = {"--version": "version", "venv": "venv", "pip": "install", "-m": "doctor"}[arguments[0]]
    kept = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PYTHON"))}
    if step != "doctor":
        with Path(__file__).with_name("calls.jsonl").open("a", encoding="utf-8") as calls:
            calls.write(json.dumps({"arguments": arguments, "environment": kept}) + "\n")
    if step == "venv":
        python = Path(arguments[-1]) / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
        python.chmod(0o755)
    if step == "install":
        cache = Path(os.environ["UV_CACHE_DIR"])
        cache.mkdir(exist_ok=True)
        (cache / "torch").write_text("downloaded")
    fail_as_told(step)
    if step == "doctor":
        print("a warning of some library")
        print(
            json.dumps({"torch": "2.13.0", "device": "cpu", "fit of one second": "20 steps, 10.0 to 20.0 dB"})
        )


if __name__ == "__main__":
    main(sys.argv[1:])
