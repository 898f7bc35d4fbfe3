"""A stand-in for the engine that keeps the protocol: used by tests, run as a script with the engine's arguments.

The mode is the name of the capture's directory: ``good`` waits for commands, ``quick`` finishes at once,
``fails`` sends a failure, ``killed`` dies by a signal, ``interrupted`` ends with a checkpoint alone, ``silent`` exits with 0 and no ending, ``chatty`` writes a
line that is no event, ``deaf`` ignores that its stdin is closed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path


def say(event: str, **values: object) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def finish(run: Path, reason: str) -> None:
    (run / "splats.ply").write_bytes(b"result")
    say("file", kind="splats", path=str(run / "splats.ply"), step=10)
    say("evaluated", step=10, psnr=30.5, ssim=0.95, views=4)
    say("finished", step=10, reason=reason, splats=120, metrics={"psnr": 30.5, "ssim": 0.95})


def obey(run: Path) -> None:
    """Answers commands until the result is asked for, or nobody is left to ask."""
    for line in sys.stdin:
        command = json.loads(line)["command"]
        if command == "pause":
            say("paused", step=5)
        elif command == "resume":
            say("resumed", step=5)
        elif command == "save":
            say("file", kind="snapshot", path=str(run / "snapshot.ply"), step=5)
        elif command == "stop":
            finish(run, "stopped")
            return
    (run / "checkpoint.pt").write_bytes(b"saved")


def main() -> None:
    mode, run = Path(sys.argv[1]).name, Path(sys.argv[3])
    print("the engine's log", file=sys.stderr, flush=True)
    say("started", device="fake", steps=10, splats=100, train_views=20, test_views=4, some_new_key=1)
    say("progress", step=5, steps=10, loss=0.25, psnr=21.0, splats=110, seconds_left=1.5)
    if (run / "alive").exists():  # a named pipe by which a test sees when this process has ended
        alive = (run / "alive").open("w", buffering=1)
        alive.write("started\n")
    if mode == "chatty":
        print("I am a library that prints", flush=True)
    if mode == "fails":
        say("failed", headline="A view is broken.", hint="Render it again.", cause="ValueError")
        sys.exit(1)
    if mode == "killed":
        print("about to die", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "silent":
        return
    if mode == "interrupted":
        finish(run, "interrupted")
        return
    if mode == "deaf":
        signal.pause()
    if mode == "good":
        obey(run)
    else:
        finish(run, "done")


if __name__ == "__main__":
    main()
