"""tools/examples/fit_shot.sh, the example of docs/pipelines.md: run as a farm would, with bpy in the place of Blender."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from addon.commands.command_line import make_parser
from splat_engine.formats.splat_ply import read_splat_ply
from tests.e2e.test_headless import ROOT, SCENE, environment

SCRIPT = ROOT / "tools" / "examples" / "fit_shot.sh"
PAGE = ROOT / "docs" / "pipelines.md"
BLENDER = '''#!{python}
"""``blender --background FILE --command splatfit COMMAND ...`` by the bpy module."""
import sys
background, blend, command, name, *words = sys.argv[1:]
assert (background, command, name) == ("--background", "--command", "splatfit"), sys.argv
from addon.commands.headless import main
code = main([words[0], blend, *words[1:]])
sys.stdout.flush()
import os
os._exit(code)
'''

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a shell script")


@pytest.fixture(scope="module")
def shot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("farm")
    blender = root / "blender"
    blender.write_text(BLENDER.format(python=sys.executable))
    blender.chmod(0o755)
    subprocess.run([sys.executable, "-c", SCENE, str(root / "shot 1.blend")], env=environment(), check=True)
    return root / "shot 1.blend"


def run(shot: Path, part: str, **variables: str) -> subprocess.CompletedProcess[str]:
    small = "--views 10 --resolution 48 --samples 4 --points 2000"
    chosen = {
        "BLENDER": str(shot.parent / "blender"),
        "CAPTURE_SETTINGS": f"{small} --hold-out 5",
        "FIT_SETTINGS": "--steps 80 --sh-degree 1 --start-splats 2000",
        "LEAST_DB": "15",
    }
    command = ["sh", str(SCRIPT), str(shot), str(shot.parent / "out"), part]
    return subprocess.run(
        command, env={**environment(), **chosen, **variables}, capture_output=True, text=True, timeout=600
    )


def test_shot_becomes_splats(shot):
    """Capture, fit and check, one job each: splats in a file and in a PLY, figures as JSON, and a gate on the quality."""
    out = shot.parent / "out"
    for part in ("capture", "fit", "check"):
        done = run(shot, part)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "dB on held-out views" in done.stdout
    said = json.loads((out / "fit.json").read_text())
    assert said["ok"] and len(read_splat_ply(out / "splats.ply")[0]) == said["splats"] > 500
    assert (out / "splats.blend").is_file()
    done = run(shot, "check", LEAST_DB="90")
    assert done.returncode == 1 and "below 90 dB" in done.stderr
    done = run(shot, "capture")  # a job that is started again renders nothing again
    assert done.returncode == 0 and "capture 1/" not in done.stderr


def test_mistake_ends_the_job(shot):
    """A wrong setting is exit code 2, a missing capture 1: the scheduler sees that the job has failed."""
    assert run(shot, "capture", CAPTURE_SETTINGS="--views many").returncode == 2
    away = shot.parent / "out"
    if away.exists():
        away.rename(shot.parent / "done")
    done = run(shot, "fit")
    assert done.returncode == 1 and "error:" in done.stderr and "Traceback" not in done.stderr


def test_page_names_what_there_is():
    """Every command and option of ours on the page exists."""
    text = PAGE.read_text(encoding="utf-8")
    (commands,) = (action for action in make_parser()._actions if action.dest == "command")
    known = dict(commands.choices or {})
    used = re.findall(r"--command splatfit ([a-z-]+)([^\n]*)", text)
    assert {"setup-engine", "check-engine", "capture", "fit"} <= {command for command, _ in used}
    for command, words in used:
        options = {option for action in known[command]._actions for option in action.option_strings}
        assert set(re.findall(r"(?<!\S)--[a-z-]+", words)) <= options, (command, words)
    assert "tools/examples/fit_shot.sh" in text
