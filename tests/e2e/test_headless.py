"""The headless command from the .blend to the splats in it, and the engine's process with the real engine.

One small scene is captured and fitted once; every test looks at what that left, or starts the engine on its capture.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from addon.display import engine_view
from addon.engine import engine_process
from addon.engine.engine_process import EngineProcess
from addon.runs.session import Session, State
from splat_engine.formats import events
from splat_engine.formats.capture import read_capture
from splat_engine.formats.exr import read_passes
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import FitSettings, RunSettings
from splat_engine.formats.splat_ply import read_splat_ply

ROOT = Path(__file__).resolve().parents[2]
VIEWS, SIZE_PX = 12, 64

SCENE = """
import sys
import bpy
bpy.ops.wm.read_factory_settings(use_empty=True)
scene = bpy.context.scene
bpy.ops.mesh.primitive_torus_add(major_radius=1.0, minor_radius=0.4, rotation=(0.5, 0.3, 0))
torus = bpy.context.object
paint = bpy.data.materials.new("Paint")
paint.use_nodes = True
paint.node_tree.nodes["Principled BSDF"].inputs["Base Color"].default_value = (0.8, 0.1, 0.05, 1)
torus.data.materials.append(paint)
bpy.ops.object.light_add(type="SUN", rotation=(0.6, 0.2, 0))
bpy.context.object.data.energy = 3
world = bpy.data.worlds.new("World")
world.use_nodes = True
world.node_tree.nodes["Background"].inputs["Color"].default_value = (0.4, 0.5, 0.7, 1)
scene.world = world
bpy.ops.wm.save_as_mainfile(filepath=sys.argv[-1])
"""

INSPECT = """
import json, sys
import bpy
import numpy as np
bpy.ops.wm.open_mainfile(filepath=sys.argv[-2])
splats = next(o for o in bpy.data.objects if o.type == "POINTCLOUD")
positions = np.empty(3 * len(splats.data.points), np.float32)
splats.data.attributes["position"].data.foreach_get("vector", positions)
answer = {
    "count": len(splats.data.points), "matrix": [list(row) for row in splats.matrix_world],
    "properties": {k: v for k, v in splats.items()}, "type": getattr(splats.data, "type", ""),
    "low": positions.reshape(-1, 3).min(0).tolist(), "high": positions.reshape(-1, 3).max(0).tolist(),
    "objects": {o.name: [o.hide_render, o.hide_get()] for o in bpy.data.objects},
}
open(sys.argv[-1], "w").write(json.dumps(answer))
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "PASSIVE"}


def blender(*words: object) -> subprocess.CompletedProcess[str]:
    """Runs a script or the add-on's command with this Python's bpy."""
    command = [sys.executable, *(str(word) for word in words)]
    return subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=600)


class Loop:
    """What one fit left."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.scene, self.result = root / "scene.blend", root / "result.blend"
        self.capture, self.run, self.report = root / "capture", root / "run", root / "report.json"
        made = blender("-c", SCENE, self.scene)
        assert self.scene.is_file(), made.stderr
        self.source_bytes = self.scene.read_bytes()
        self.done = blender(
            "-m", "addon", "fit", self.scene, "--out", self.result, "--capture", self.capture, "--run", self.run,
            "--json", self.report, "--views", VIEWS, "--resolution", SIZE_PX, "--samples", 8, "--hold-out", 4,
            "--points", 3000, "--steps", 150, "--sh-degree", 1, "--max-splats", 4000, "--hide-originals",
        )  # fmt: skip


@pytest.fixture(scope="session")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Loop:
    made = Loop(tmp_path_factory.mktemp("loop"))
    assert made.done.returncode == 0, made.done.stdout[-3000:] + made.done.stderr[-3000:]
    return made


def test_json_report(loop):
    """The JSON has quality, seconds of every part, the count and where everything is."""
    said = json.loads(loop.report.read_text())
    assert said["ok"] and not [text for text in said["warnings"] if "ellipsoids" not in text]
    assert said["engine.psnr"] > 20 and 0.5 < said["engine.ssim"] <= 1
    assert all(said[f"seconds.{part}"] > 0 for part in ("capture", "fit", "import"))
    assert said["result"] == str(loop.result.resolve()) and said["run"] == str(loop.run.resolve())
    assert said["splats"] == len(read_splat_ply(loop.run / "splats.ply")[0]) > 500


def test_progress_is_for_a_person(loop):
    """stderr tells of capture and fit; the source is untouched."""
    said = loop.done.stderr
    assert f"captured {VIEWS} views in" in said and "fitted " in said and "dB on held-out views" in said
    assert said.count("starting the engine") == 1
    assert "Traceback" not in loop.done.stderr
    assert loop.scene.read_bytes() == loop.source_bytes


def test_splats_stand_in_place(loop, tmp_path):
    """In the result the splats are where the torus is, without a transform, say which run made them; it is hidden."""
    answer = tmp_path / "answer.json"
    done = blender("-c", INSPECT, loop.result, answer)
    assert answer.is_file(), done.stderr
    found: dict[str, Any] = json.loads(answer.read_text())
    assert found["matrix"] == np.eye(4).tolist() and found["count"] > 500
    assert found["properties"]["splatfit_run"] == str(loop.run.resolve())
    assert found["properties"]["splatfit_formation"] == "blender"
    low, high = np.array(found["low"]), np.array(found["high"])
    assert np.all(np.abs((low + high) / 2) < 0.5) and np.all(high - low > 0.8) and np.all(high - low < 5)
    assert found["objects"]["Torus"] == [True, True] and found["objects"]["Sun"] == [False, False]


def test_blender_draws_what_was_captured(loop, tmp_path):
    """``render`` draws the splats from the held-out cameras; they look like the scene, by far better than nothing."""
    out = tmp_path / "pictures"
    words = ["--cameras", loop.capture, "--split", "test", "--samples", 64, "--out", out]
    done = blender("-m", "addon", "render", loop.result, *words)
    assert done.returncode == 0, done.stderr
    errors = []
    for view in read_capture(loop.capture).of_split("test"):
        original = read_passes(loop.capture / view.exr, ("color",))["color"]
        drawn = read_passes(out / Path(view.exr).name, ("color",))["color"]
        errors.append(np.mean((np.clip(original, 0, 1) - np.clip(drawn, 0, 1)) ** 2))
        assert original[..., 3].max() == 1
    assert -10 * np.log10(np.mean(errors)) > 18


@pytest.fixture
def start(loop: Loop, tmp_path: Path) -> Iterator[Any]:
    """Starts the real engine on the capture."""
    processes: list[EngineProcess] = []

    def start(name: str = "run", *, resume: bool = False, steps: int = 100000) -> EngineProcess:
        run = RunDirectory.create(tmp_path / name)
        settings = RunSettings(fit=FitSettings(steps=steps, max_splats=3000, sh_degree=0, strategy="none"))
        python = engine_process.find_python()
        command = engine_process.train_command(python, loop.capture, run, settings, resume=resume)
        processes.append(EngineProcess(command, run))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()


def until(session: Session, condition: Any) -> None:
    """Polls until something is so, or the session is over."""
    while not condition() and session.poll(wait_s=60):
        pass
    assert condition(), session.error


def test_steered_from_outside(start):
    """The real engine pauses, goes on, saves and stops with a result, as the session asks."""
    process = start()
    session = Session(process.run, lambda: process)
    session.start()
    until(session, lambda: session.report.step > 0)
    assert session.pause()
    until(session, lambda: session.state is State.PAUSED)
    assert session.save()
    until(session, lambda: process.run.checkpoint.is_file())
    assert session.resume()
    until(session, lambda: session.state is State.FITTING)
    assert session.stop()
    until(session, lambda: session.state.is_over)
    assert session.state is State.FINISHED and process.run.splats.is_file()
    assert session.report.test_psnr_db is not None and session.report.metrics["splats"] > 0


DRAW = """
import sys
import numpy as np
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import SplatState
from splat_engine.fit.pictures import draw_view, rgba8
from splat_engine.formats.capture import read_capture
from splat_engine.formats.splat_ply import read_splat_ply
params = SplatState.from_splats(read_splat_ply(sys.argv[1])[0]).params
camera, formation = read_capture(sys.argv[2]).views[0].camera, ImageFormation(sys.argv[3])
np.save(sys.argv[4], rgba8(draw_view(params, camera, formation), formation))
"""


@pytest.mark.parametrize("formation", ["blender", "classic"])
def test_engine_and_blender_draw_the_same(loop, tmp_path, formation):
    """What Blender's copy of the kernels draws of splats is the engine's picture of them, in both formations."""
    words = ["-c", DRAW, loop.run / "splats.ply", loop.capture, formation, tmp_path / "there.npy"]
    command = [str(word) for word in (engine_process.find_python(), *words)]
    subprocess.run(command, env=engine_process.engine_environment(), check=True, timeout=600)
    there = np.load(tmp_path / "there.npy").astype(float)
    splats, camera = read_splat_ply(loop.run / "splats.ply")[0], read_capture(loop.capture).views[0].camera
    here = np.rint(255 * engine_view.draw_splats(splats, camera, is_classic=formation == "classic"))
    seen = there[..., 3] > 0
    assert seen.mean() > 0.2 and np.abs(here - there)[seen].max() <= 1


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_killed_engine_is_told(start):
    """Killed from outside, the session fails in words that name the log; no half result is left."""
    process = start()
    session = Session(process.run, lambda: process)
    session.start()
    until(session, lambda: session.report.step > 0)
    os.kill(process.pid, signal.SIGKILL)
    while session.poll(wait_s=60):
        pass
    assert session.state is State.FAILED and session.error is not None
    assert "SIGKILL" in session.error.headline and str(process.run.log) in session.error.hint
    assert not process.run.splats.exists()


def test_closed_pipe_saves_and_resumes(start):
    """The parent goes: the real engine saves a checkpoint and exits; the next start goes on from there."""
    process = start("again")
    while not any(isinstance(event, events.Progress) for event in process.new_events(wait_s=60)):
        assert process.is_running()
    process.close(timeout_s=60)
    assert process.run.checkpoint.is_file()
    resumed = start("again", resume=True)
    first: list[int] = []
    while not first:
        assert resumed.is_running(), resumed.error()
        first = [e.first_step for e in resumed.new_events(wait_s=60) if isinstance(e, events.Started)]
    assert first[0] > 0


@pytest.fixture
def heeded_ctrl_c():
    """Programs that a test starts heed Ctrl-C, though a shell that started the tests in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.usefixtures("heeded_ctrl_c")
def test_interrupted_command_can_be_resumed(loop, tmp_path):
    """Ctrl-C ends command and engine with code 130 and a checkpoint, without a result; --resume goes on from there."""
    run, out = tmp_path / "run", tmp_path / "result.blend"
    words = ["-m", "addon", "fit", loop.scene, "--out", out, "--capture", loop.capture, "--use-capture"]
    words += ["--run", run, "--max-splats", 3000, "--strategy", "none"]
    command = [sys.executable, *map(str, words), "--steps", "100000"]
    with subprocess.Popen(
        command, env=environment(), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if line.startswith("fit ") and "dB" in line)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130, said + rest
    assert "interrupted" in rest and "Traceback" not in rest
    assert (run / "checkpoint.pt").is_file() and not out.exists()
    reached = json.loads((run / "events.jsonl").read_text().splitlines()[-1])["step"]
    done = blender(*words, "--steps", reached + 20, "--resume", "--json", tmp_path / "again.json")
    assert done.returncode == 0, done.stderr
    assert out.is_file() and json.loads((tmp_path / "again.json").read_text())["splats"] > 0


def test_engine_complains_in_words(start, loop):
    """A failure of the engine's (a step number that is too low to resume to, a broken view ...) arrives as its words."""
    (broken := loop.root / "broken").mkdir(exist_ok=True)
    run = RunDirectory.create(loop.root / "broken-run")
    command = engine_process.train_command(engine_process.find_python(), broken, run, RunSettings())
    process = EngineProcess(command, run)
    while process.is_running():
        process.new_events(wait_s=60)
    error = process.error()
    assert error is not None and "transforms.json" in error.headline and error.hint
