"""Splatfit without a window: ``python -m addon COMMAND`` with the bpy module, and the same commands as
``blender --background FILE.blend --command splatfit COMMAND``.

Exit codes: 0 done; 1 something the user can mend (said in words on stderr); 2 a wrong command line; 3 a failure of
ours; 130 interrupted. Progress goes to stderr, the result to stdout and, on request, as JSON into a file.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bpy

from splat_engine.formats import events
from splat_engine.formats.capture import read_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.files import write_json
from splat_engine.formats.splat_ply import write_splat_ply

from ..engine import engine_jobs
from ..runs import workflow
from ..runs.session import Session, State
from ..scene import blend_file, blender_render, originals, splat_object
from . import command_line, headless_engine
from .event_stream import EXIT_INTERRUPTED, EventStream

EXIT_OK, EXIT_USER, EXIT_USAGE, EXIT_INTERNAL = 0, 1, 2, 3
_NICENESS = 5
"""Of a capture in the background: a person works in another Blender meanwhile."""
_POLL_WAIT_S = 0.5
_PROGRESS_INTERVAL_S = 2.0

Result = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit code."""
    try:
        options = command_line.make_parser().parse_args(arguments)
    except SystemExit as ending:
        return int(ending.code or 0) if not isinstance(ending.code, str) else EXIT_USAGE
    try:
        result = COMMANDS[options.command](options)
    except UserError as error:
        _say(f"error: {error}")
        _write_result(options.json, {"ok": False, "error": error.as_dict()})
        return EXIT_USER
    except KeyboardInterrupt:
        _say("interrupted")
        return EXIT_INTERRUPTED
    except Exception as error:
        traceback.print_exc()
        _say(f"error: {_failure_words(error)} Please report this.")
        return EXIT_INTERNAL
    code = _write_result(options.json, {"ok": True, **result})
    if code == EXIT_OK:
        _show(result)
    return code


def blender_command(arguments: Sequence[str]) -> int:
    """What Blender calls for ``--command splatfit``."""
    return main(arguments)


def _fit(options: argparse.Namespace) -> Result:
    blend_file.refuse_overwriting(options.blend, options.out, options.force)
    found = blend_file.open_scene(options.blend, options.scene, options.scripts)
    folder = workflow.default_folder(str(options.out))
    request = workflow.FitRequest(
        scene=found.scene,
        capture_directory=options.capture or folder / "capture",
        run_directory=options.run or folder / "run",
        capture=command_line.capture_settings(options),
        run=command_line.run_settings(options),
        engine_python=options.engine_python or engine_jobs.chosen_python(),
        resume=options.resume,
        use_capture=options.use_capture,
    )
    session = workflow.fit_session(request)
    follow(session)
    added, seconds = workflow.timed_import(found.scene, session.run, session.report.test_psnr_db)
    notes = list(added.notes)
    if options.hide_originals:
        notes += originals.hide(found.scene, found.view_layer, added.object)
    blend_file.save(options.out)
    for note in notes:
        _say(f"note: {note}")
    report = session.report
    times = {**report.seconds, "import": seconds}
    return {
        "result": str(options.out.resolve()),
        "object": added.object.name,
        "capture": str(Path(request.capture_directory).resolve()),
        "run": str(session.run.root.resolve()),
        "splats": added.count,
        "engine.psnr": report.test_psnr_db,
        "engine.ssim": report.test_ssim,
        **{f"seconds.{name}": round(value, 3) for name, value in times.items()},
        "warnings": [*report.warnings, *notes],
    }


def _capture(options: argparse.Namespace) -> Result:
    if options.commands and hasattr(os, "nice"):
        os.nice(_NICENESS)
    if options.progress == "text":
        return _captured(options, follow)
    with EventStream(listen=options.commands) as stream:
        try:
            result = _captured(options, lambda session: follow_for_program(session, stream))
        except UserError as error:
            stream.say(_failed(error))
            raise
        except Exception as error:
            stream.say(events.Failed(headline=_failure_words(error), hint="Please report this."))
            raise
        stream.say(events.Finished(step=result["views.train"] + result["views.test"]))
    return result


def _captured(options: argparse.Namespace, follow: Callable[[Session], None]) -> Result:
    found = blend_file.open_scene(options.blend, options.scene, options.scripts)
    request = workflow.FitRequest(
        scene=found.scene,
        capture_directory=options.out,
        run_directory=options.run or options.out,
        capture=command_line.capture_settings(options),
        engine_python=options.engine_python,
        source=options.source,
    )
    session = workflow.capture_session(request)
    follow(session)
    capture = read_capture(options.out)
    return {
        "capture": str(options.out.resolve()),
        "views.train": len(capture.of_split("train")),
        "views.test": len(capture.of_split("test")),
        "seconds.capture": round(session.report.seconds["capture"], 3),
        "warnings": session.report.warnings,
    }


def _import(options: argparse.Namespace) -> Result:
    if options.blend is not None:
        blend_file.refuse_overwriting(options.blend, options.out, options.force)
        found = blend_file.open_scene(options.blend, options.scene, options.scripts)
    else:
        found = blend_file.present_or_empty()
        blend_file.refuse_overwriting(None, options.out, options.force)
    since_s = time.monotonic()
    added = workflow.import_ply(found.scene, options.ply)
    seconds = time.monotonic() - since_s
    blend_file.save(options.out)
    return {
        "result": str(options.out.resolve()),
        "object": added.object.name,
        "splats": added.count,
        "seconds.import": round(seconds, 3),
        "warnings": list(added.notes),
    }


def _export(options: argparse.Namespace) -> Result:
    found = blend_file.open_scene(options.blend, options.scene, options.scripts)
    object = blend_file.splat_object(found.scene, options.object)
    depsgraph = None if options.no_modifiers else found.view_layer.depsgraph
    if depsgraph is not None:
        found.view_layer.update()
    splats = splat_object.read_splats(object, depsgraph=depsgraph, world=not options.local)
    write_splat_ply(options.out, splats)
    return {"result": str(options.out.resolve()), "object": object.name, "splats": len(splats)}


def _render(options: argparse.Namespace) -> Result:
    capture = read_capture(options.cameras)
    views = capture.views if options.split == "all" else capture.of_split(options.split)
    if not views:
        raise UserError(f"{options.cameras} has no {options.split} views.", "Choose another --split.")
    found = blend_file.open_scene(options.blend, options.scene, options.scripts)
    object = blend_file.splat_object(found.scene, options.object)
    paths = [
        options.out / f"{blender_render.view_name(view, number)}.exr" for number, view in enumerate(views)
    ]
    since_s = time.monotonic()
    blender_render.render_files(
        object,
        [view.camera for view in views],
        paths,
        samples=options.samples,
        seed=options.seed,
        progress=lambda done, total: _say(f"render {done}/{total}"),
    )
    return {
        "object": object.name,
        "views": [str(path.resolve()) for path in paths],
        "samples": options.samples,
        "seconds.render": round(time.monotonic() - since_s, 3),
    }


COMMANDS: dict[str, Callable[[argparse.Namespace], Result]] = {
    "fit": _fit,
    "capture": _capture,
    "import": _import,
    "export": _export,
    "render": _render,
    **headless_engine.COMMANDS,
}


def follow(session: Session) -> None:
    """Runs a session to its end and tells a person about it on stderr.

    Raises:
        UserError: It failed.
        KeyboardInterrupt: It was interrupted; it is cancelled, with a checkpoint.
    """
    _follow(session, _Teller(session).tell, lambda: False)


def follow_for_program(session: Session, stream: EventStream) -> None:
    """Runs a session to its end and tells a program about it; ends it as interrupted when that program is gone.

    Raises:
        UserError, KeyboardInterrupt: As ``follow``.
    """
    _follow(session, _EventTeller(session, stream).tell, stream.parent_gone.is_set)


def _follow(session: Session, tell: Callable[[], None], is_abandoned: Callable[[], bool]) -> None:
    session.start()
    try:
        while session.poll(_POLL_WAIT_S):
            tell()
            if is_abandoned():
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        session.cancel()
        raise
    tell()
    if session.error is not None:
        raise session.error


class _EventTeller:
    """Says as events how far a capture is, and what it warns of."""

    def __init__(self, session: Session, stream: EventStream) -> None:
        self._session, self._stream = session, stream
        self._warnings = 0
        self._last: events.Captured | None = None

    def tell(self) -> None:
        report = self._session.report
        for message in report.warnings[self._warnings :]:
            self._stream.say(events.Warned(message=message))
        self._warnings = len(report.warnings)
        state = events.Captured(
            done=report.step, total=report.steps, message=report.phase, seconds_left=report.seconds_left
        )
        if state != self._last:
            self._stream.say(state)
            self._last = state


class _Teller:
    """Says now and then where a session stands; every warning, and the same thing, once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._warnings = 0
        self._state = State.IDLE
        self._next_s = 0.0
        self._last = ""

    def tell(self) -> None:
        session, now_s = self._session, time.monotonic()
        for message in session.report.warnings[self._warnings :]:
            _say(f"warning: {message}")
        self._warnings = len(session.report.warnings)
        if session.state is self._state and now_s < self._next_s:
            return
        if session.state is not self._state and self._state is State.CAPTURING:
            self._say_once(_captured_line(session))
        self._state, self._next_s = session.state, now_s + _PROGRESS_INTERVAL_S
        self._say_once(_line(session))

    def _say_once(self, text: str) -> None:
        if text and text != self._last:
            _say(text)
            self._last = text


def _captured_line(session: Session) -> str:
    seconds = session.report.seconds.get("capture")
    return "" if seconds is None else f"captured {session.report.views} views in {seconds:.1f} s"


def _line(session: Session) -> str:
    report = session.report
    if session.state is State.CAPTURING:
        return f"capture {report.step}/{report.steps}" if report.steps else "capture: looking at the scene"
    if session.state is State.FITTING and report.steps:
        figures = f"{report.psnr_db:.1f} dB, {report.splats} splats, {report.seconds_left:.0f} s left"
        return f"fit {report.step}/{report.steps}: {figures}"
    if session.state is State.FINISHED and "fit" in report.seconds:
        quality = "" if report.test_psnr_db is None else f", {report.test_psnr_db:.2f} dB on held-out views"
        return f"fitted {report.splats} splats in {report.seconds['fit']:.1f} s{quality}"
    words = {State.FITTING: "fit: starting the engine", State.PAUSED: "paused", State.CANCELLED: "cancelled"}
    return words.get(session.state, "")


def _failed(error: UserError) -> events.Failed:
    words = error.as_dict()
    return events.Failed(headline=words["headline"], hint=words["hint"], cause=words["cause"])


def _failure_words(error: BaseException) -> str:
    return f"Splatfit failed: {type(error).__name__}: {error}."


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _write_result(path: Path | None, result: Result) -> int:
    if path is not None:
        try:
            write_json(path, result)
        except UserError as error:
            _say(f"error: {error}")
            return EXIT_USER
    return EXIT_OK


def _show(result: Result) -> None:
    lines = [f"{name:<16} {value}" for name, value in result.items() if not isinstance(value, list)]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def register() -> Any:
    """Makes the commands known to Blender; returns the handle for ``unregister``."""
    return bpy.utils.register_cli_command("splatfit", blender_command)


def unregister(handle: Any) -> None:
    """Takes the commands away again."""
    bpy.utils.unregister_cli_command(handle)
