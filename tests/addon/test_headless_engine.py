"""addon.commands.headless_engine: the engine set up and checked from a command line, with jobs that do nothing but say so."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from addon.commands import headless, headless_engine
from addon.engine.setup import jobs, place, plan
from splat_engine.formats.errors import UserError


def run(*words: object) -> int:
    return headless.main([str(word) for word in words])


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel that an installed extension would carry."""
    made = tmp_path / "splat_engine-0.1.0-py3-none-any.whl"
    made.write_bytes(b"wheel")
    monkeypatch.setattr(headless_engine, "carried_wheel", lambda folder: made)
    return made


def job_that(work: Any, tmp_path: Path) -> jobs.Job:
    return jobs.Job(work, tmp_path / "log", dict(os.environ))


def test_check_says_what_was_found(tmp_path, monkeypatch, capsys):
    """The facts stand on stdout and in the JSON, the phases on stderr."""

    def work(job: jobs.Job) -> dict[str, Any]:
        job.say("Looking", 0.1, "")
        return {"torch": "2.13.0", "device": "cpu"}

    (tmp_path / "python").touch()
    monkeypatch.setattr(jobs, "check_job", lambda *a: job_that(work, tmp_path))
    report = tmp_path / "report.json"
    assert run("check-engine", "--engine-python", tmp_path / "python", "--json", report) == 0
    said = json.loads(report.read_text())
    assert said == {"ok": True, "python": str(tmp_path / "python"), "torch": "2.13.0", "device": "cpu"}
    shown = capsys.readouterr()
    assert "Looking" in shown.err and "2.13.0" in shown.out and "Looking" not in shown.out


def test_engine_that_fails_is_an_error_in_words(tmp_path, monkeypatch, capsys):
    """What is wrong with an engine is told with what to do, by exit code 1 and in the JSON."""

    def work(job: jobs.Job) -> dict[str, Any]:
        raise UserError("The engine has no torch.", "Install it.")

    (tmp_path / "python").touch()
    monkeypatch.setattr(jobs, "check_job", lambda *a: job_that(work, tmp_path))
    report = tmp_path / "report.json"
    assert run("check-engine", "--engine-python", tmp_path / "python", "--json", report) == 1
    assert json.loads(report.read_text())["error"]["hint"] == "Install it."
    assert "error: The engine has no torch." in capsys.readouterr().err
    assert run("check-engine", "--engine-python", tmp_path / "gone") == 1


def test_interrupted_setup_is_cancelled(tmp_path, monkeypatch, wheel):
    """Ctrl-C ends the programs that the set-up has started, and the command by 130."""
    began, cancelled = threading.Event(), threading.Event()

    def work(job: jobs.Job) -> dict[str, Any]:
        began.set()
        cancelled.wait(30)
        return {}

    job = job_that(work, tmp_path)
    monkeypatch.setattr(jobs, "setup_job", lambda plan: job)
    monkeypatch.setattr(job, "cancel", lambda wait_s: cancelled.set())

    def interrupted(wait_s: float) -> bool:
        assert began.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "wait_for_news", interrupted)
    assert run("setup-engine", "--folder", tmp_path / "engine", "--packages", tmp_path) == 130
    assert cancelled.is_set()


def test_setup_goes_where_it_is_told(tmp_path, monkeypatch, wheel):
    """The plan names folder, wheel and packages; the JSON names the Python, for SPLATFIT_ENGINE_PYTHON."""
    plans: list[plan.Plan] = []

    def setup_job(made: plan.Plan) -> jobs.Job:
        plans.append(made)
        return job_that(lambda job: {"torch": "2.13.0"}, tmp_path)

    monkeypatch.setattr(jobs, "setup_job", setup_job)
    report = tmp_path / "report.json"
    words = ("setup-engine", "--folder", tmp_path / "engine", "--packages", tmp_path, "--json", report)
    assert run(*words) == 0
    (made,) = plans
    assert (made.place.root, made.wheel, made.wheel_folder) == (tmp_path / "engine", wheel, tmp_path)
    assert json.loads(report.read_text())["python"] == str(made.place.python)


def test_engine_that_stands_is_left_alone(tmp_path, monkeypatch, wheel):
    """A second set-up does nothing, needs no network, and says the same."""
    there = place.EnginePlace(tmp_path / "engine")
    there.python.parent.mkdir(parents=True)
    there.python.touch()
    place.write_stamp(there, wheel, {"torch": "2.13.0"})
    monkeypatch.setattr(jobs, "setup_job", lambda plan: pytest.fail("set up again"))
    report = tmp_path / "report.json"
    assert run("setup-engine", "--folder", there.root, "--json", report) == 0
    assert json.loads(report.read_text())["torch"] == "2.13.0"


def test_blender_that_may_not_go_online(tmp_path, wheel, capsys, monkeypatch):
    """Nothing is downloaded without leave: the error says how to give it."""
    monkeypatch.setattr(
        headless_engine, "bpy", type("bpy", (), {"app": type("app", (), {"online_access": False})})
    )
    assert run("setup-engine", "--folder", tmp_path / "engine") == 1
    assert "--online-mode" in capsys.readouterr().err and not (tmp_path / "engine").exists()


def test_checkout_has_nothing_to_set_up(tmp_path, capsys):
    """From a checkout, which carries no wheel, the words say what to do instead."""
    assert run("setup-engine", "--folder", tmp_path / "engine") == 1
    assert "make setup" in capsys.readouterr().err
