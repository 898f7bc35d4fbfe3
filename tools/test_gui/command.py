"""``make test-gui``: the built zip in a real window. Each scenario is a small file in tools/test_gui/scenarios.

    python -m tools.test_gui.command [SCENARIO ...] [--zip FILE] [--out DIR] [--timeout SECONDS]

Blender 5.2 runs in a chroot (tools/test_gui/chroot.py) under a virtual screen, with a new profile for each scenario. A
scenario sees the extension as a person does: it looks for buttons, clicks, types, and takes pictures, which come to
out/test-gui/SCENARIO together with Blender's log. Look at them: a test passes if nothing fails, not if it is pretty.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools.test_gui.chroot import GuiTestError, cache_folder, entering, make_chroot, write_engine
from tools.test_gui.xwd import write_png

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCREEN = (1280, 800)
BLENDER = (
    "blender", "--factory-startup", "--enable-event-simulate", "--gpu-backend", "opengl",
    "--window-geometry", "0", "0", *map(str, SCREEN), "--python-exit-code", "3",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where scenarios run.

    Attributes:
        chroot: The folder that Blender sees as the whole machine.
        inside: A scenario's own folder, at the same path for Blender and for the engine outside.
    """

    chroot: Path
    inside: Path


@dataclass(frozen=True)
class Outcome:
    """How a scenario ended.

    Attributes:
        name: The scenario's.
        seconds: How long it took.
        failure: Why it failed; "" if it did not.
        pictures: What it has shown.
    """

    name: str
    seconds: float
    failure: str
    pictures: list[Path]


def main() -> int:
    """Runs the command line; returns the exit code."""
    names = sorted(path.stem for path in (HERE / "scenarios").glob("[a-z]*.py"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(names)}; default: all"
    )
    parser.add_argument(
        "--zip", type=Path, help="extension to install; default: one built from this checkout"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "test-gui", help="default: out/test-gui")
    parser.add_argument("--timeout", type=float, default=480, help="seconds for a scenario; default: 480")
    parser.add_argument(
        "--nice", type=int, default=15, help="of Blender, which draws on the processor; default: 15"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.scenarios) - set(names))
    if unknown:
        parser.error(f"there is no scenario {', '.join(unknown)}; there are {', '.join(names)}")
    try:
        chroot = make_chroot(cache_folder())
        archive = options.zip or built_zip()
        outcomes = [
            run_scenario(
                Place(chroot, cache_folder() / "scenario"),
                name,
                archive,
                options.out / name,
                options.timeout,
                options.nice,
            )
            for name in options.scenarios or names
        ]
    except GuiTestError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    for outcome in outcomes:
        print(f"{outcome.name}: {outcome.failure or 'passed'} in {outcome.seconds:.0f} s", flush=True)
        for picture in outcome.pictures:
            print(f"    {picture}")
    failed = sum(bool(outcome.failure) for outcome in outcomes)
    print(f"{len(outcomes) - failed} passed, {failed} failed")
    return 1 if failed else 0


def built_zip() -> Path:
    """Returns the extension of this checkout, built if a source is newer."""
    command = [sys.executable, str(ROOT / "tools" / "build_extension"), "--if-changed"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise GuiTestError(f"The extension could not be built:\n{done.stderr}")
    return Path(done.stdout.strip().splitlines()[-1])


def run_scenario(
    place: Place, name: str, archive: Path, out: Path, timeout_s: float, niceness: int
) -> Outcome:
    """Runs one scenario in a folder of its own, and brings back its pictures and logs."""
    inside = place.inside
    shutil.rmtree(inside, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (inside / "pictures").mkdir(parents=True)
    shutil.copyfile(archive, inside / archive.name)
    for module in ("window.py", "monkey.py"):
        shutil.copyfile(HERE / module, inside / module)
    shutil.copyfile(HERE / "scenarios" / f"{name}.py", inside / "scenario.py")
    shutil.copyfile(ROOT / "tests" / "addon" / "fake_uv.py", inside / "fake_uv.py")
    write_engine(inside / "engine-python", ROOT / ".venv" / "engine" / "bin" / "python", ROOT)
    task = {"archive": str(inside / archive.name), "engine_python": str(inside / "engine-python")}
    (inside / "task.json").write_text(json.dumps(task), encoding="utf-8")
    since_s = time.monotonic()
    log = out / "blender.log"
    with log.open("wb") as stream:
        code = subprocess.run(
            ["nice", "-n", str(niceness), *chroot_command(place, timeout_s)], stdout=stream, stderr=stream
        ).returncode
    pictures = [write_png(path, out / f"{path.stem}.png") for path in sorted(inside.glob("pictures/*.xwd"))]
    return Outcome(name, time.monotonic() - since_s, failure_of(inside, code, log), pictures)


def chroot_command(place: Place, timeout_s: float) -> list[str]:
    """Returns the command line that runs Blender in the chroot, never for longer than it may."""
    environment = [
        "LIBGL_ALWAYS_SOFTWARE=1", "HOME=/root", "LC_ALL=C.UTF-8", "OMP_WAIT_POLICY=PASSIVE",
        f"BLENDER_USER_RESOURCES={place.inside}/profile", f"XDG_RUNTIME_DIR={place.inside}",
    ]  # fmt: skip
    limit = ["timeout", "--kill-after=10", f"{timeout_s:.0f}"]
    screen = ["xvfb-run", "--auto-servernum", f"--server-args=-screen 0 {SCREEN[0]}x{SCREEN[1]}x24"]
    clean = ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *environment]
    program = [*BLENDER, "--python", f"{place.inside}/window.py"]
    return entering(place.chroot, place.inside, [*clean, *limit, *screen, *program])


def failure_of(inside: Path, code: int, log: Path) -> str:
    """Returns why a scenario failed, as its window tells it or as the process ended; "" if it did not."""
    answer = inside / "answer.json"
    if answer.is_file():
        found = json.loads(answer.read_text(encoding="utf-8"))
        return "" if found["ok"] else f"FAILED: {found['failure']}"
    ending = {124: "ran out of time", 137: "was killed"}.get(code, f"ended with exit code {code}")
    last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
    return f"FAILED: Blender {ending} without an answer; the log {log} ends with:\n" + "\n".join(last)


if __name__ == "__main__":
    sys.exit(main())
