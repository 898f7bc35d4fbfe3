"""Builds the stand-in for NVIDIA's driver, and runs Python in a child process that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


@dataclass(frozen=True)
class Outcome:
    """What a child did.

    Attributes:
        calls: the lines that the driver wrote, each cut into words.
        printed: what the child printed.
        error: the UserError that ended it, as its ``as_dict``; None if it came to its end.
    """

    calls: list[list[str]]
    printed: str
    error: dict[str, str] | None

    def named(self, name: str) -> list[list[str]]:
        """The words of the calls of one kind, without its name."""
        return [words[1:] for words in self.calls if words[0] == name]


class FakeDriver:
    """The built stand-in, and a child process that has it.

    Args:
        folder: where it lies.
    """

    def __init__(self, folder: Path) -> None:
        self._log = folder / "calls"
        flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        library = folder / "libcuda.so.1"
        subprocess.run(["g++", *flags, "-o", str(library), str(HERE / "fake_driver.cpp")], check=True)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "LD_LIBRARY_PATH": str(folder),
        }
        self._child = subprocess.Popen(
            [sys.executable, str(HERE / "child.py")],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, body: str, **settings: object) -> Outcome:
        """Runs statements in the child, with nothing left of those before.

        Args:
            body: the statements; they know ``adam`` of child.py.
            **settings: environment variables of the stand-in, without their FAKE_CUDA_.
        """
        settings = {"LOG": self._log, "VERSION": 13000} | settings
        task = {
            "body": body,
            "settings": {f"FAKE_CUDA_{name}": str(value) for name, value in settings.items()},
        }
        self._log.unlink(missing_ok=True)
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(json.dumps(task) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        assert answer, "the child ended; its words are on stderr"
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return Outcome([line.split(" ") for line in lines], **json.loads(answer))

    def close(self) -> None:
        """Ends the child."""
        self._child.communicate()
