"""The command line in one process: every command on good input, and every bad input in words with its exit code."""

from __future__ import annotations

import builtins
import errno
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from splat_engine import cli
from splat_engine.commands.device import first_import
from splat_engine.fit.checkpoint import load_checkpoint
from splat_engine.fit.exr import read_layers
from splat_engine.formats.capture import TRANSFORMS_NAME
from splat_engine.formats.errors import UserError
from splat_engine.formats.events import Failed, decode_event
from splat_engine.formats.locks import Lock
from splat_engine.formats.point_ply import Points, write_point_ply
from splat_engine.formats.settings import PRESETS, RunSettings, to_dict
from splat_engine.formats.splat_ply import read_splat_ply, write_splat_ply
from tests.engine.tiny_capture import HEIGHT, WIDTH, known_splats, perturbed, write_tiny_capture

STEPS = "12"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("capture")
    write_tiny_capture(root, pictures=True)
    return root


@pytest.fixture(scope="module")
def run(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 12 steps."""
    root = tmp_path_factory.mktemp("runs") / "run"
    assert train(capture, root) == 0
    return root


@pytest.fixture(autouse=True)
def quiet_log() -> Any:
    """Takes away the log files that a command added, so that one test's failures are not in another's log."""
    import logging

    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in [handler for handler in root.handlers if handler not in before]:
        handler.close()
        root.removeHandler(handler)
    root.setLevel(level)


def train(capture: Path, root: Path, *more: str) -> int:
    options = ["--steps", STEPS, "--threads", "2", "--start-splats", "120", *more]
    return cli.main(["train", str(capture), "--out", str(root), *options])


def fails(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    """Runs a command that must fail; returns stderr, which has a headline, a hint and no traceback."""
    assert cli.main([str(argument) for argument in arguments]) == code
    text = capsys.readouterr().err
    assert text.startswith("error: ") and "Traceback" not in text
    assert len(text.strip().split("\n")) >= 2, "a headline and a hint"
    return text


def events_of(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / "events.jsonl").read_text().splitlines()]


def test_train_leaves_a_whole_run(run: Path, capture: Path) -> None:
    """settings, events, checkpoint, splats with metadata, preview and metrics are there and agree."""
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["steps"] == 12 and metrics["seed"] == 0 and metrics["formation"] == "blender"
    assert 10 < metrics["engine.psnr"] < 50 and 0.2 < metrics["engine.ssim"] <= 1
    assert metrics["engine.split"] == "test" and metrics["engine.views"] == 2 and metrics["seconds.fit"] > 0
    splats, _, _ = read_splat_ply(run / "splats.ply")
    assert len(splats) == metrics["splats"] and 110 < len(splats) <= 120
    assert splats.metadata["formation"] == "blender" and splats.metadata["run"] == str(run.resolve())
    assert splats.metadata["capture"] == str(capture.resolve()) and splats.metadata["steps"] == "12"
    assert json.loads((run / "settings.json").read_text())["fit"]["steps"] == 12
    assert Image.open(run / "preview.png").size == (WIDTH, HEIGHT)
    assert (run / "checkpoint.pt").is_file()
    names = [event["event"] for event in events_of(run)]
    assert events_of(run)[0]["capture"] == str(capture.resolve())
    assert names[0] == "started" and names[-1] == "finished" and "evaluated" in names and "progress" in names
    assert not [name for name in os.listdir(run) if name.endswith(".part")]


def test_events_go_to_stdout_as_json_lines(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal stdout is the event stream, the same that events.jsonl holds."""
    assert train(capture, tmp_path / "run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == events_of(tmp_path / "run")


def test_progress_bar_and_none(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``bar`` draws on stderr and ends with the figures; ``none`` is silent."""
    assert train(capture, tmp_path / "run", "--progress", "bar") == 0
    captured = capsys.readouterr()
    assert "12/12" in captured.err and "engine.psnr" in captured.out and "{" not in captured.out
    assert train(capture, tmp_path / "run", "--progress", "none") == 0
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == ""


def test_a_new_run_replaces_an_old_one(run: Path, capture: Path, tmp_path: Path) -> None:
    """Figures and files of the run before are gone, not mixed into the new ones."""
    root = tmp_path / "run"
    root.mkdir()
    (root / "metrics.json").write_text('{"blender.psnr_view": 99.0}')
    (root / "snapshot.ply").write_text("old")
    assert train(capture, root) == 0
    assert "blender.psnr_view" not in json.loads((root / "metrics.json").read_text())
    assert not (root / "snapshot.ply").exists()


def test_bad_input_leaves_an_old_run_alone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A capture that cannot be read does not cost the run that stands in the folder."""
    before = {name: (run / name).read_bytes() for name in ("checkpoint.pt", "splats.ply", "metrics.json")}
    assert train(tmp_path / "nowhere", run) == 1
    assert "no capture at" in capsys.readouterr().err
    assert all((run / name).read_bytes() == content for name, content in before.items())


def test_two_engines_on_one_run(run: Path, capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While another program holds the run's lock, an engine is refused in words, and touches none of its files."""
    with Lock(run / "run.lock", "The run"):
        before = {path.name: path.read_bytes() for path in run.iterdir()}
        capsys.readouterr()
        assert train(capture, run, "--progress", "json") == 1
        said = capsys.readouterr()
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert "is being written by another Splatfit" in said.err
    told = decode_event(said.out)
    assert isinstance(told, Failed) and "is being written by another Splatfit" in told.headline


def test_settings_file_and_options(capture: Path, tmp_path: Path) -> None:
    """A settings file sets, options override it, and the run records what was used."""
    settings = to_dict(RunSettings())
    settings["fit"] |= {"steps": 5, "seed": 9}
    settings["densify"]["interval"] = 77
    (tmp_path / "s.json").write_text(json.dumps(settings))
    root = tmp_path / "run"
    options = ["--seed", "4", "--lr-means", "0.001", "--no-random-background"]
    command = ["train", str(capture), "--out", str(root), "--settings", str(tmp_path / "s.json"), *options]
    assert cli.main(command) == 0
    used = json.loads((root / "settings.json").read_text())
    assert used["fit"]["steps"] == 5 and used["fit"]["seed"] == 4 and used["densify"]["interval"] == 77
    assert used["optimizer"]["means"] == 0.001 and used["loss"]["random_background"] is False


def test_a_preset_is_recorded_and_options_win(capture: Path, tmp_path: Path) -> None:
    """--preset sets steps and splats, an option sets its own, and settings.json has all of it."""
    root = tmp_path / "run"
    assert train(capture, root, "--preset", "draft", "--steps", "3", "--strategy", "none") == 0
    used = json.loads((root / "settings.json").read_text())["fit"]
    assert (used["preset"], used["steps"]) == ("draft", 3)
    assert used["max_splats"] == PRESETS["draft"]["fit"]["max_splats"] != RunSettings().fit.max_splats


def test_resume_goes_on_with_the_runs_settings(capture: Path, tmp_path: Path) -> None:
    """12 steps and then 8 more are 20; seconds add up; the first event says where it began."""
    root = tmp_path / "run"
    assert train(capture, root, "--seed", "5") == 0
    seconds = json.loads((root / "metrics.json").read_text())["seconds.fit"]
    assert cli.main(["train", str(capture), "--out", str(root), "--resume", "--steps", "20"]) == 0
    metrics = json.loads((root / "metrics.json").read_text())
    assert metrics["steps"] == 20 and metrics["seed"] == 5 and metrics["seconds.fit"] > seconds
    assert [event["first_step"] for event in events_of(root) if event["event"] == "started"] == [0, 12]


def test_random_start(tmp_path: Path) -> None:
    """A capture without start points begins with random ones; --start names others."""
    write_tiny_capture(tmp_path / "capture", views=4, with_init=False, with_passes=False)
    assert train(tmp_path / "capture", tmp_path / "run", "--random-points", "50", "--strategy", "none") == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["splats"] == 50
    write_splat_ply(tmp_path / "start.ply", known_splats(30))
    assert train(tmp_path / "capture", tmp_path / "run", "--start", str(tmp_path / "start.ply")) == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["splats"] == 30


def test_the_start_is_recorded_as_it_was_meant(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word ``random`` stays a word, though the capture has points; a file is recorded with its whole path."""
    options = ("--random-points", "50", "--strategy", "none", "--start")
    assert train(capture, tmp_path / "run", *options, "random") == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["splats"] == 50
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["start"]["start"] == "random"
    monkeypatch.chdir(capture)
    assert train(capture, tmp_path / "run", *options, "init.ply") == 0
    recorded = json.loads((tmp_path / "run" / "settings.json").read_text())["start"]["start"]
    assert recorded == str(capture.resolve() / "init.ply")


def test_what_grows_is_what_does_not_cover_the_surfaces(capture: Path, tmp_path: Path) -> None:
    """``--strategy auto`` adds splats to a file of points, not to a dense start; a resume keeps what was decided."""
    grow = (
        "--densify-start",
        "2",
        "--densify-interval",
        "2",
        "--densify-gradient",
        "0",
        "--densify-stop-share",
        "1",
    )
    counts = {}
    for name, start in (("dense", ""), ("points", str(capture / "init.ply"))):
        assert train(capture, tmp_path / name, "--start", start, *grow) == 0
        saved = load_checkpoint(tmp_path / name / "checkpoint.pt")
        counts[name] = len(saved["trainer"]["splats"]["params"]["means"]), saved["strategy"]
        again = ["train", str(capture), "--out", str(tmp_path / name), "--resume", "--steps", "14"]
        assert cli.main(again) == 0
        assert load_checkpoint(tmp_path / name / "checkpoint.pt")["strategy"] == saved["strategy"]
    assert counts["dense"][0] <= 120 and counts["dense"][1] == "none"
    assert counts["points"][0] > 120 and counts["points"][1] == "adaptive"


def test_target_display_fits_the_pictures(capture: Path, tmp_path: Path) -> None:
    """``--target display`` takes the PNG files of a capture that has both."""
    assert train(capture, tmp_path / "run", "--target", "display", "--formation", "classic") == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["formation"] == "classic"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda root: (root / TRANSFORMS_NAME).unlink(), "holds no transforms.json"),
        (lambda root: (root / TRANSFORMS_NAME).write_text("{"), "not valid JSON"),
        (lambda root: change(root, lambda d: d["frames"].clear()), "no training view"),
        (lambda root: change(root, all_held_out), "no training view"),
        (lambda root: change(root, lambda d: frame(d, "transform_matrix", 0, 0, value="nan")), "not finite"),
        (lambda root: change(root, lambda d: d["frames"][0].update(transform_matrix=[[0.0] * 4] * 4)), "singular"),
        (lambda root: change(root, lambda d: d["frames"][0].update(w=99)), "99"),
        (lambda root: (root / "views" / "0001.exr").unlink(), "0001.exr"),
        (lambda root: (root / "views" / "0001.exr").write_bytes(b"?"), "0001.exr is not a readable EXR"),
        (lambda root: (root / "init.ply").unlink(), "init.ply are missing"),
        (lambda root: (without_passes(root), (root / "init.ply").write_bytes(b"ply\nnonsense")), "init.ply"),
        (lambda root: (without_passes(root), write_point_ply(root / "init.ply", Points(*[np.zeros((0, 3), np.float32)] * 3))), "init.ply holds no usable point"),
    ],
    ids=["no-transforms", "broken-json", "no-frames", "all-held-out", "nan-camera", "singular-camera", "other-size",
         "missing-view", "broken-view", "missing-points", "broken-points", "no-points"],
)  # fmt: skip
def test_bad_capture(
    spoil: Callable[[Path], object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each way a capture can be bad: exit code 1, one sentence that names it, one what to do, a failed event."""
    root = tmp_path / "capture"
    write_tiny_capture(root, views=4, hold_out=4)
    spoil(root)
    assert train(root, tmp_path / "run") == 1
    captured = capsys.readouterr()
    assert words in captured.err and "Traceback" not in captured.err
    assert len(captured.err.strip().splitlines()) == 2
    last = events_of(tmp_path / "run")[-1]
    assert last["event"] == "failed" and words in last["headline"] and last["hint"]
    assert json.loads(captured.out.splitlines()[-1]) == last
    assert not (tmp_path / "run" / "splats.ply").exists()


def without_passes(root: Path) -> None:
    change(root, lambda document: document["splatfit"].update(passes=[]))


def change(root: Path, how: Callable[[dict[str, Any]], object]) -> None:
    path = root / TRANSFORMS_NAME
    document = json.loads(path.read_text())
    how(document)
    path.write_text(json.dumps(document))


def frame(document: dict[str, Any], key: str, row: int, column: int, value: object) -> None:
    document["frames"][0][key][row][column] = value


def all_held_out(document: dict[str, Any]) -> None:
    for item in document["frames"]:
        item["splatfit"]["split"] = "test"


def test_missing_or_empty_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is not there, or is empty."""
    assert "no capture at" in fails(capsys, 1, "train", tmp_path / "no", "--out", tmp_path / "run")
    (tmp_path / "empty").mkdir()
    assert "transforms.json" in fails(capsys, 1, "train", tmp_path / "empty", "--out", tmp_path / "run")


def test_missing_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A depth loss on a capture without the depth pass names the file, the pass and the way out."""
    capture = write_tiny_capture(tmp_path / "capture", views=2, hold_out=0)
    path = capture.root / "views" / "0000.exr"
    from splat_engine.fit.exr import write_layers

    write_layers(path, read_layers(path, ("Combined",), (WIDTH, HEIGHT)))
    text = fails(capsys, 1, "train", capture.root, "--out", tmp_path / "run", "--depth-weight", "0.1")
    assert "0000.exr lacks the pass Depth" in text and "weight" in text


def test_unknown_settings(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line: usage, exit code 2. In a file or outside its limits: exit code 1 with the known names."""
    with pytest.raises(SystemExit) as caught:
        train(capture, tmp_path / "run", "--stepz", "3")
    assert caught.value.code == 2 and "--stepz" in capsys.readouterr().err
    (tmp_path / "s.json").write_text('{"fit": {"stepz": 3}}')
    text = fails(capsys, 1, "train", capture, "--out", tmp_path / "run", "--settings", tmp_path / "s.json")
    assert "unknown setting 'stepz'" in text and "steps" in text
    assert "sh_degree is 7" in fails(
        capsys, 1, "train", capture, "--out", tmp_path / "run", "--sh-degree", "7"
    )
    assert "CUDA" in fails(capsys, 1, "train", capture, "--out", tmp_path / "run", "--device", "cuda")


def test_a_card_that_is_left_alone_is_a_warning(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``auto``, a card whose kernels cannot be had: the fit is on the processor, and an event says why."""
    import torch

    from splat_engine.fit import place

    def refuse(device: torch.device) -> None:
        raise UserError("The driver is too old.", "Update it.")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(place, "check_card", refuse)
    assert train(capture, tmp_path / "run", "--steps", "1") == 0
    said = events_of(tmp_path / "run")
    assert any(e["event"] == "warning" and "too old" in e["message"] for e in said)
    assert next(e for e in said if e["event"] == "started")["device"].startswith("cpu, ")


def test_resume_without_a_run(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no run, or a run without a checkpoint."""
    assert "no run at" in fails(capsys, 1, "train", capture, "--out", tmp_path / "run", "--resume")
    (tmp_path / "run" / "settings.json").write_text("{}")
    assert "no checkpoint" in fails(capsys, 1, "train", capture, "--out", tmp_path / "run", "--resume")


def test_without_torch(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python without torch is named, with the way to install it; so for every command that needs it."""
    real = builtins.__import__

    def without_torch(name: str, *rest: Any, **more: Any) -> Any:
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    for command in (["train", capture], ["fit-image", "--example", "ring"]):
        text = fails(capsys, 1, *command, "--out", tmp_path / "run")
        assert sys.executable in text and "no torch" in text and "pip install" in text


def test_a_large_import_is_not_looked_through() -> None:
    """The collector is off inside and on after, an error or not; what is there already, or was off, is left alone."""
    frozen = gc.get_freeze_count()
    try:
        with first_import("no_such_module"):
            assert not gc.isenabled()
        with pytest.raises(ImportError), first_import("no_such_module"):
            raise ImportError
        assert gc.isenabled() and gc.get_freeze_count() > frozen
        with first_import("sys"):
            assert gc.isenabled()
        gc.disable()
        with first_import("no_such_module"):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()


def test_a_fit_begins_with_the_collector_on(capture: Path, tmp_path: Path) -> None:
    """In a process of its own the imports are frozen when the fit begins, and what the fit makes is collected."""
    code = (
        "import gc, sys\nfrom splat_engine import cli\nfrom splat_engine.commands.train import fit_request\n"
        "from splat_engine.formats.run import RunDirectory\n"
        f"options = cli._parser().parse_args(['train', {str(capture)!r}, '--out', {str(tmp_path)!r}])\n"
        "fit_request(options, RunDirectory.create(options.out))\n"
        "assert 'torch' in sys.modules\n"
        "print(gc.isenabled(), gc.get_freeze_count())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    enabled, frozen = told.split()
    assert enabled == "True" and int(frozen) > 100_000


def test_full_disk(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that does not fit on the disk is a warning; a result that does not is an error, and no half file."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    root = tmp_path / "run"
    root.mkdir()
    from splat_engine.fit import loop

    real = loop.write_json

    def write_settings(*arguments: Any) -> None:
        real(*arguments)
        monkeypatch.setattr(os, "fsync", full)

    monkeypatch.setattr(loop, "write_json", write_settings)
    assert train(capture, root, "--snapshot-interval", "5") == 1
    captured = capsys.readouterr()
    assert "checkpoint.pt" in captured.err and "disk is full" in captured.err
    warnings = [event["message"] for event in events_of(root) if event["event"] == "warning"]
    assert any("snapshot.ply" in message for message in warnings)
    assert any("preview.png" in message for message in warnings)
    assert events_of(root)[-1]["event"] == "failed"
    assert sorted(os.listdir(root)) == ["engine.log", "events.jsonl", "run.lock", "settings.json"]


def test_real_full_device(tmp_path: Path, capsys: pytest.CaptureFixture[str], capture: Path) -> None:
    """events.jsonl on a device that is really full (Linux's /dev/full): an error in words."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    root = tmp_path / "run"
    root.mkdir()
    (root / "events.jsonl").symlink_to("/dev/full")
    assert train(capture, root) == 1
    text = capsys.readouterr().err
    assert "events.jsonl" in text and "disk is full" in text and "Traceback" not in text


def test_run_folder_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str], capture: Path) -> None:
    """A file stands where the run's folder should be."""
    (tmp_path / "file").write_text("")
    assert "Cannot write" in fails(capsys, 1, "train", capture, "--out", tmp_path / "file" / "run")


def test_failure_of_ours_is_logged_not_shown(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected exception: exit code 3, one line on stderr, the traceback in engine.log, a failed event."""
    from splat_engine.fit import loop

    def broken(*arguments: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(loop, "read_capture", broken)
    assert train(capture, tmp_path / "run") == 3
    text = capsys.readouterr().err
    assert "planted" in text and "engine.log" in text and "Traceback" not in text
    assert "Traceback" in (tmp_path / "run" / "engine.log").read_text()
    assert events_of(tmp_path / "run")[-1]["event"] == "failed"
    monkeypatch.setattr(loop, "read_capture", lambda path: (_ for _ in ()).throw(MemoryError()))
    assert train(capture, tmp_path / "run", "--max-splats", "4000") == 1
    text = capsys.readouterr().err
    assert "not enough memory" in text and "4000" in text and "--max-splats 3000" in text


def test_render_draws_the_views(run: Path, capture: Path, tmp_path: Path) -> None:
    """PNG and EXR of each view by its own name; the EXR decodes to the PNG; the capture is known from the splats."""
    out = tmp_path / "out"
    assert (
        cli.main(["render", str(run), "--out", str(out), "--split", "test", "--exr", "--background", "black"])
        == 0
    )
    assert sorted(os.listdir(out)) == ["0002.exr", "0002.png", "0006.exr", "0006.png"]
    layers = read_layers(out / "0002.exr", ("Combined", "Depth", "Normal"), (WIDTH, HEIGHT))
    linear, alpha = layers["Combined"][..., :3], layers["Combined"][..., 3]
    from splat_engine.formats.conventions import srgb_from_linear

    png = np.asarray(Image.open(out / "0002.png"), np.float32) / 255
    assert png.shape == (HEIGHT, WIDTH, 3)
    assert np.abs(np.clip(srgb_from_linear(linear), 0, 1) - png).max() < 0.6 / 255
    solid = alpha > 0.9
    assert solid.sum() > 100
    assert layers["Depth"][solid].min() > 2 and layers["Depth"][solid].max() < 6
    assert np.allclose(np.linalg.norm(layers["Normal"][solid], axis=-1), 1, atol=1e-3)


def test_render_transparent_and_scaled(run: Path, capture: Path, tmp_path: Path) -> None:
    """Transparent PNGs have straight alpha; --scale changes the size; every view has its own file."""
    command = [
        "render",
        str(run / "splats.ply"),
        "--cameras",
        str(capture),
        "--out",
        str(tmp_path),
        "--scale",
        "0.5",
    ]
    assert cli.main(command) == 0
    assert len(os.listdir(tmp_path)) == 8
    picture = np.asarray(Image.open(tmp_path / "0000.png"))
    assert picture.shape == (HEIGHT // 2, WIDTH // 2, 4)
    assert picture[0, 0, 3] == 0 and picture[..., 3].max() > 200


def test_eval_agrees_with_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The figures of the PLY are those of metrics.json, for people and as JSON."""
    metrics = json.loads((run / "metrics.json").read_text())
    assert cli.main(["eval", str(run), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["engine.psnr"] == pytest.approx(metrics["engine.psnr"], abs=1e-3)
    assert scores["engine.ssim"] == pytest.approx(metrics["engine.ssim"], abs=1e-4)
    assert len(scores["views"]) == 2
    assert cli.main(["eval", str(run / "splats.ply")]) == 0
    assert f"{metrics['engine.psnr']:.2f} dB" in capsys.readouterr().out


def test_splats_of_others_need_a_capture(
    tmp_path: Path, capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A PLY that names no capture asks for one, and is drawn in the classic formation."""
    write_splat_ply(tmp_path / "s.ply", perturbed(known_splats()))
    assert "--capture" in fails(capsys, 1, "eval", tmp_path / "s.ply")
    assert "--cameras" in fails(capsys, 1, "render", tmp_path / "s.ply", "--out", tmp_path)
    assert cli.main(["eval", str(tmp_path / "s.ply"), "--capture", str(capture), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["formation"] == "classic"
    assert "no file" in fails(capsys, 1, "eval", tmp_path / "none.ply")
    assert "There is no run" in fails(capsys, 1, "eval", tmp_path)


def test_info_knows_everything(
    run: Path, capture: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Splats, points, capture, run and checkpoint are told apart and described; nonsense is refused."""

    def facts(path: Path) -> dict[str, Any]:
        assert cli.main(["info", str(path), "--json"]) == 0
        values: dict[str, Any] = json.loads(capsys.readouterr().out)
        return values

    splats = facts(run / "splats.ply")
    assert splats["kind"] == "splats" and 110 < splats["splats"] <= 120 and splats["formation"] == "blender"
    points = facts(capture / "init.ply")
    assert points["kind"] == "points" and points["points"] == 120 and points["normals"] is True
    described = facts(capture)
    assert described["views"] == 8 and described["held out"] == 2 and described["passes"] == "depth, normal"
    described = facts(run)
    assert described["kind"] == "run" and "result" in described["has"] and described["steps"] == 12
    described = facts(run / "checkpoint.pt")
    assert (
        described["kind"] == "checkpoint"
        and described["step"] == 12
        and described["splats"] == splats["splats"]
    )
    assert cli.main(["info", str(run)]) == 0
    assert re.search(r"engine\.psnr +\d", capsys.readouterr().out)
    assert "nothing at" in fails(capsys, 1, "info", tmp_path / "none")
    (tmp_path / "x.ply").write_text("text")
    assert "not a PLY" in fails(capsys, 1, "info", tmp_path / "x.ply")


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    """Versions, the instruction set, threads, what there is for cards, and a fit that learns."""
    assert cli.main(["doctor", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["torch"] and facts["instruction set"] and facts["threads"] >= 1
    if Path("/proc/meminfo").is_file():
        assert re.fullmatch(r"[\d.]+ [KMG]iB of [\d.]+ [KMG]iB free", facts["memory"])
    assert facts["CUDA of torch"] and facts["CUDA kernels"] and facts["NVIDIA driver"]
    first, last = re.findall(r"[\d.]+ to [\d.]+ dB", facts["fit of one second"])[0].split(" to ")
    assert float(last.split()[0]) > float(first) + 1


def test_fit_image_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example writes its four files and its figures; a picture and an example at once are refused."""
    out = tmp_path / "out"
    command = ["fit-image", "--example", "ring", "--out", str(out), "--steps", "60", "--count", "100"]
    assert cli.main(command) == 0
    assert sorted(os.listdir(out)) == ["curve.png", "metrics.json", "montage.png", "picture.png"]
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["psnr"] > 20 and metrics["gaussians"] == 100
    assert f"{metrics['psnr']}" in capsys.readouterr().out
    assert "picture or an example" in fails(capsys, 1, "fit-image", "--out", out)
    assert "no.png" in fails(capsys, 1, "fit-image", tmp_path / "no.png", "--out", out)


@pytest.mark.parametrize("command", ["train", "render", "eval", "info", "doctor", "fit-image"])
def test_help_of_each_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command's help says what it does and which exit codes there are."""
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "--help"])
    text = capsys.readouterr().out
    assert caught.value.code == 0 and "Exit codes" in text and f"splat-engine {command}" in text
    if command == "train":
        assert "--densify-gradient" in text and "--lr-sh-dc" in text and "--ssim-weight" in text


def test_no_command_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command: usage, exit code 2."""
    with pytest.raises(SystemExit) as caught:
        cli.main([])
    assert caught.value.code == 2
