"""The quality benchmark: what is done is not done again, what changed is, and the table says it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="a fit needs torch")

from splat_engine.fit.exr import write_layers  # noqa: E402
from splat_engine.fit.formation import decode_srgb  # noqa: E402
from splat_engine.formats.capture import read_capture  # noqa: E402
from tests.engine.tiny_capture import write_tiny_capture  # noqa: E402
from tools.bench.quality import command, pictures, plan, records, stages, table  # noqa: E402
from tools.bench.quality.plan import SCENES_FOLDER, SETTINGS, SUBJECTS, Subject  # noqa: E402
from tools.bench.quality.stages import Layout, ensure_capture, ensure_fit  # noqa: E402

TINY = Subject("tiny", "", size_px=44)
FIGURES = {"psnr_db", "ssim", "splats", "fit_wall_s", "fit_cpu_s", "capture_wall_s", "capture_cpu_s"}
FIGURES |= {"ply_bytes", "scene", "setting", "steps", "size_px", "inputs"}


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A data set of a few pixels in the place of suzanne256, and a setting of a few steps."""
    capture = write_tiny_capture(tmp_path / "capture")
    assert capture.init is not None
    monkeypatch.setattr(stages, "DATASET", capture.root)
    monkeypatch.setattr(stages, "DATASET_START", capture.init)
    monkeypatch.setattr(command, "DATASET", capture.root)
    monkeypatch.setitem(SETTINGS, "tiny", ("--steps", "3"))
    monkeypatch.setitem(SUBJECTS, "tiny", TINY)
    return Layout(tmp_path / "out")


def fits_in(layout: Layout) -> int:
    """Counts the fits that the log tells of."""
    return layout.log.read_text().count("splat_engine train") if layout.log.is_file() else 0


def test_a_finished_record_is_kept_and_a_changed_one_made_anew(
    tiny: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same call fits once; other options, or a record that was cut off, fit again."""
    first = ensure_fit(tiny, TINY, "tiny", threads=1)
    assert set(first) == FIGURES and first["steps"] == 3 and first["psnr_db"] > 5
    assert first["fit_cpu_s"] > 0 and first["ply_bytes"] > 1000
    assert ensure_fit(tiny, TINY, "tiny", threads=1) == first
    assert fits_in(tiny) == 1
    path = tiny.record("tiny.tiny")
    path.write_text(path.read_text()[:40])
    again = ensure_fit(tiny, TINY, "tiny", threads=1)
    assert fits_in(tiny) == 2 and again["psnr_db"] == first["psnr_db"]
    monkeypatch.setitem(SETTINGS, "tiny", ("--steps", "4"))
    assert ensure_fit(tiny, TINY, "tiny", threads=1)["steps"] == 4
    assert fits_in(tiny) == 3


def test_one_command_leaves_table_and_sheet(tiny: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON, Markdown and the contact sheet of a scene; the exit code says that all went well."""
    words = ["--scenes", "tiny", "--settings", "tiny", "--threads", "1", "--out", str(tiny.root)]
    assert command.main(words) == 0
    told = json.loads((tiny.root / "table.json").read_text())
    assert [record["setting"] for record in told["records"]] == ["tiny"] and "cores" in told["machine"]
    text = (tiny.root / "table.md").read_text()
    assert text.splitlines()[2].startswith("| tiny | tiny | 44 |") and text in capsys.readouterr().out
    assert (tiny.root / "sheets" / "tiny.png").stat().st_size > 1000


def test_blenders_figures_are_added_without_another_fit(
    tiny: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pictures equal to the held-out views score as equal, beside the figures that were there; once is enough."""
    first = ensure_fit(tiny, TINY, "tiny", threads=1)
    drawn: list[str] = []

    def equal_pictures(layout: Layout, subject: Subject, setting: str) -> list[Path]:
        drawn.append(setting)
        return [layout.capture(subject) / "views"] * 2

    monkeypatch.setattr(stages, "draw_by_blender", equal_pictures)
    both = ensure_fit(tiny, TINY, "tiny", threads=1, blender=True)
    assert both["blender_psnr_db"] == pytest.approx(120) and both["blender_ssim"] == pytest.approx(1)
    assert both["blender_noiseless_db"] == pytest.approx(120)
    assert {name: both[name] for name in first} == first and fits_in(tiny) == 1
    assert ensure_fit(tiny, TINY, "tiny", threads=1, blender=True) == both and drawn == ["tiny"]


def test_a_failing_scene_is_told(tiny: Layout, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """A fit that cannot run gives exit code 1 and the engine's words, and no record."""
    monkeypatch.setitem(SETTINGS, "tiny", ("--steps", "-1"))
    words = ["--scenes", "tiny", "--settings", "tiny", "--out", str(tiny.root)]
    assert command.main(words) == 1
    assert "steps" in capsys.readouterr().err and not tiny.record("tiny.tiny").exists()


def test_a_capture_is_made_anew_when_its_scene_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call of Blender's stages for one state of the script and options, another for each change of either."""
    calls: list[str] = []
    subject, layout = SUBJECTS["matte"], Layout(tmp_path)

    def pretend(name: str, words: list[Any], log: Path, *, quiet: bool = True) -> None:
        calls.append(name)
        if name.startswith("build"):
            layout.blend(subject).parent.mkdir(exist_ok=True)
            layout.blend(subject).touch()
        if name.startswith("capture"):
            (layout.capture(subject)).mkdir(parents=True, exist_ok=True)
            (layout.capture(subject) / "transforms.json").write_text("{}")

    monkeypatch.setattr(stages, "run_stage", pretend)
    monkeypatch.setattr(stages, "python_of", lambda name: Path(name))
    first = ensure_capture(layout, subject)
    assert calls == ["build matte", "capture matte"] and ensure_capture(layout, subject) == first
    assert len(calls) == 2
    layout.record("matte").unlink()
    assert ensure_capture(layout, subject) == first
    assert calls[2:] == ["capture matte"], "an interrupted capture goes on with the file that it had"
    scripts = tmp_path / "scenes"
    scripts.mkdir()
    for name in ("matte.py", "parts.py"):
        (scripts / name).write_bytes((SCENES_FOLDER / name).read_bytes())
    monkeypatch.setattr(records, "SCENES_FOLDER", scripts)
    assert ensure_capture(layout, subject) == first
    (scripts / "matte.py").write_text("# another scene\n")
    assert ensure_capture(layout, subject)["inputs"] != first["inputs"]
    assert calls[3:] == ["build matte", "capture matte"]


def test_every_scene_has_a_script_and_other_options_other_records() -> None:
    """Names in the plan lead to files, and each setting's fit has a fingerprint of its own."""
    for subject in SUBJECTS.values():
        assert not subject.scene or (SCENES_FOLDER / f"{subject.scene}.py").is_file()
    assert len({records.fit_digest("x", options) for options in SETTINGS.values()}) == len(SETTINGS)
    assert len([s for s in SUBJECTS.values() if s.size_px == 800]) >= 2
    assert {subject.scene for subject in SUBJECTS.values()} >= set(plan.SCENES)


def test_columns_without_a_figure_are_left_out() -> None:
    """Blender's column appears with the first record that has it; megabytes are made of bytes."""
    record = {"scene": "matte", "setting": "none", "psnr_db": 31.416, "ply_bytes": 2_500_000}
    plain = table.markdown([record], "a machine")
    assert (
        "Blender" not in plain and "| matte | none | 31.42 | 2.5 |" in plain and plain.endswith("a machine\n")
    )
    both = table.markdown([record, {**record, "blender_psnr_db": 30.0}], "a machine")
    assert "Blender dB" in both and "| matte | none | 31.42 |  | 2.5 |" in both


def test_the_noise_of_renders_is_told_from_their_error(tiny: Layout, tmp_path: Path) -> None:
    """Two noisy renders of a grey scene score without their noise as the grey itself, and one of them alone worse."""
    capture, random = read_capture(tiny.capture(TINY)), np.random.default_rng(1)
    folders, wrong_db = [tmp_path / "one", tmp_path / "other"], []
    images = pictures.test_images(capture.root)
    for number, view in enumerate(capture.of_split("test")):
        height, width = view.camera.height, view.camera.width
        for folder in folders:
            folder.mkdir(exist_ok=True)
            encoded = torch.from_numpy(0.5 + random.normal(0, 0.05, (height, width, 3)))
            combined = np.dstack([decode_srgb(encoded).numpy(), np.ones((height, width))]).astype(np.float32)
            write_layers(folder / f"{Path(view.exr or view.image).stem}.exr", {"Combined": combined})
        truth = pictures.FORMATION.picture(images[number].color).clamp(0, 1)
        wrong_db.append(-10 * math.log10((truth - 0.5).square().mean()))
    scores, expected_db = pictures.blender_scores(capture.root, *folders), sum(wrong_db) / len(wrong_db)
    assert scores["blender_noiseless_db"] == pytest.approx(expected_db, abs=0.02)
    assert scores["blender_psnr_db"] < expected_db - 0.02
