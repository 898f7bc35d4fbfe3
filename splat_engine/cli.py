"""The command ``splat-engine``: train, propose, render, eval, info, doctor, fit-image.

Exit codes: 0 done; 1 something the user can mend (said in words on stderr); 2 a wrong command line; 3 a failure of
ours; 130 interrupted, with a checkpoint to resume from.

torch is imported inside the commands alone, so ``--help`` is quick and a missing torch is an error in words.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from splat_engine import report
from splat_engine.formats.capture import Capture, View, read_capture
from splat_engine.formats.conventions import FORMATIONS, Formation
from splat_engine.formats.errors import UserError
from splat_engine.formats.events import Event, Failed, Finished
from splat_engine.formats.files import read_json, write_failure, write_json
from splat_engine.formats.locks import Lock
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import (
    RANDOM_START,
    FitSettings,
    ImageFitSettings,
    RunSettings,
    add_arguments,
    add_run_arguments,
    from_arguments,
    run_from_dict,
    run_with_arguments,
)

if TYPE_CHECKING:
    from splat_engine.fit.commands import CommandQueue
    from splat_engine.fit.loop import FitRequest
    from splat_engine.fit.place import Place
    from splat_engine.formats.splats import Splats

logger = logging.getLogger(__name__)

EXIT_OK, EXIT_USER, EXIT_USAGE, EXIT_INTERNAL, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
_EPILOG = (
    "Exit codes: 0 done; 1 something you can mend (stderr says what); 2 wrong command line; 3 failure of the program; "
    "130 interrupted, with a checkpoint saved (go on with --resume)."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    # Threads of torch that spin while they wait would take the cores from ours (shared/bench: three times slower).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except UserError as error:
        report.say_error(error)
        return EXIT_USER
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        logged = getattr(options, "log", None)
        report.say_error(_failure(error, logged))
        if logged is None:
            traceback.print_exception(error, file=sys.stderr)
        return EXIT_INTERNAL


def _failure(error: Exception, log: Path | None) -> UserError:
    """Returns the words for what is not the user's mistake."""
    if isinstance(error, MemoryError):
        return UserError("There is not enough memory.", "Use fewer or smaller views, or fewer splats.", error)
    hint = f"Please report this, with {log}." if log else "Please report this, with the lines below."
    return UserError(f"The engine failed: {type(error).__name__}: {error}", hint, error)


def program_version() -> str:
    """Returns the version of the installed package, or "unknown" in a bare checkout."""
    try:
        return metadata.version("splat-engine")
    except metadata.PackageNotFoundError:
        return "unknown"


# -- the parser --------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="splat-engine", description="Fits 3D Gaussian splats to rendered views.", epilog=_EPILOG
    )
    parser.add_argument("--version", action="version", version=f"splat-engine {program_version()}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (_add_train, _add_propose, _add_render, _add_eval, _add_info, _add_doctor, _add_fit_image):
        add(commands)
    return parser


def _add(commands: Any, name: str, run: Callable[[argparse.Namespace], int], help: str) -> Any:
    parser = commands.add_parser(name, help=help, description=help, epilog=_EPILOG)
    parser.set_defaults(command=run)
    return parser


def _add_train(commands: Any) -> None:
    parser = _add(
        commands, "train", _train, "Fit splats to a capture, or to a nerfstudio or NeRF-synthetic data set."
    )
    _add_run(parser)
    parser.add_argument(
        "--resume", action="store_true", help="go on from RUN/checkpoint.pt with the run's settings"
    )
    parser.add_argument(
        "--settings", type=Path, metavar="FILE", help="settings as JSON, as in RUN/settings.json"
    )
    add_run_arguments(parser)


def _add_run(parser: Any) -> None:
    parser.add_argument("capture", type=Path, help="folder of the capture, or its transforms.json")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="RUN",
        help="folder of the run; an earlier run in it is replaced",
    )
    parser.add_argument(
        "--commands",
        action="store_true",
        help="read commands (pause, resume, save, stop, preview) as JSON lines from stdin; when it is closed, "
        "save a checkpoint and exit",
    )
    parser.add_argument(
        "--progress",
        choices=("json", "bar", "none"),
        help="events as JSON lines on stdout, a progress bar, or neither; default: a bar on a terminal, else json",
    )


def _add_propose(commands: Any) -> None:
    parser = _add(
        commands,
        "propose",
        _propose,
        "Fit briefly to a capture, and choose the cameras from which the fit is most wrong.",
    )
    _add_run(parser)
    parser.add_argument(
        "--candidates",
        type=Path,
        required=True,
        metavar="CAPTURE",
        help="capture of probes: small, noisy views from the cameras to choose from",
    )
    parser.add_argument("--count", type=int, required=True, help="how many to choose")
    parser.add_argument("--steps", type=int, default=400, help="of the brief fit; default: 400")
    add_arguments(parser, FitSettings, only=("target", "device", "threads", "seed"))


def _add_source(parser: Any) -> None:
    parser.add_argument("splats", type=Path, metavar="SPLATS|RUN", help="a splat PLY, or the folder of a run")
    parser.add_argument(
        "--formation", choices=FORMATIONS, help="how to draw; default: what the PLY says, else classic"
    )
    add_arguments(parser, FitSettings, only=("device",))


def _add_render(commands: Any) -> None:
    parser = _add(commands, "render", _render, "Draw splats from the cameras of a capture.")
    _add_source(parser)
    parser.add_argument(
        "--cameras", type=Path, metavar="CAPTURE", help="default: the capture the splats were fitted to"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the pictures")
    parser.add_argument(
        "--split", choices=("all", "train", "test"), default="all", help="which views; default: all"
    )
    parser.add_argument(
        "--exr", action="store_true", help="also write scene-linear EXR with depth and normals, premultiplied"
    )
    parser.add_argument(
        "--background",
        choices=("transparent", "black", "white"),
        default="transparent",
        help="of the PNG files",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the resolution; default: 1")


def _add_eval(commands: Any) -> None:
    parser = _add(commands, "eval", _eval, "Compare splats with a capture's views: PSNR and SSIM over black.")
    _add_source(parser)
    parser.add_argument("--capture", type=Path, help="default: the capture the splats were fitted to")
    parser.add_argument(
        "--split", choices=("train", "test"), default="test", help="default: the held-out views"
    )
    parser.add_argument(
        "--target", choices=("auto", "linear", "display"), default="auto", help="which colours"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_info(commands: Any) -> None:
    parser = _add(commands, "info", _info, "Say what a PLY, a capture, a run or a checkpoint holds.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_doctor(commands: Any) -> None:
    parser = _add(commands, "doctor", _doctor, "Check the installation, and fit for one second.")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_fit_image(commands: Any) -> None:
    parser = _add(commands, "fit-image", _fit_image, "Fit a picture with 2D Gaussians.")
    parser.add_argument("picture", type=Path, nargs="?", help="PNG, JPEG ...; or --example")
    parser.add_argument("--example", choices=("ring",), help="a built-in picture of 96 x 96 pixels")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the results")
    add_arguments(parser, ImageFitSettings)


# -- train -------------------------------------------------------------------------------------------------------------


def _train(options: argparse.Namespace) -> int:
    def work(run: RunDirectory, emit: Callable[[Event], None]) -> Finished:
        request = _request(options, run)
        from splat_engine.fit.loop import run_fit

        return run_fit(request, emit, _listening(options))

    return _follow(options, work)


def _propose(options: argparse.Namespace) -> int:
    if options.count < 1 or options.steps < 1:
        raise UserError("--count and --steps must be 1 or more.", "Ask for at least one view after one step.")

    def work(run: RunDirectory, emit: Callable[[Event], None]) -> Finished:
        asked = from_arguments(FitSettings, options)
        place = _start_device(asked.device, asked.threads, logger.info)
        from splat_engine.fit.loop import FitRequest
        from splat_engine.fit.proposals import ProposalRequest, brief, propose_views

        fit = FitRequest(
            options.capture, run.root, brief(asked, options.steps), version=program_version(), place=place
        )
        return propose_views(
            ProposalRequest(fit, options.candidates, options.count), emit, _listening(options)
        )

    return _follow(options, work)


def _follow(
    options: argparse.Namespace, work: Callable[[RunDirectory, Callable[[Event], None]], Finished]
) -> int:
    """Does a run's work with its log and its events, alone in the run's folder; returns the exit code."""
    report.guard_stdout()
    run = RunDirectory.create(options.out)
    style = options.progress or report.default_style()
    with _alone_in(run, style), report.Reporter(style, run.events) as reporter:
        _log_to(run.log)
        options.log = run.log
        try:
            finished = work(run, reporter.emit)
        except UserError as error:
            logger.error(
                "%s", error, exc_info=error.cause if isinstance(error.cause, BaseException) else None
            )
            reporter.emit(Failed.of(error))
            raise
        except Exception as error:
            logger.exception("failure")
            reporter.emit(Failed.of(_failure(error, run.log)))
            raise
    if reporter.style == "bar":
        report.say_table({"result": run.root, "reason": finished.reason, **finished.metrics})
    return EXIT_INTERRUPTED if finished.reason == "interrupted" else EXIT_OK


@contextmanager
def _alone_in(run: RunDirectory, style: report.ProgressStyle) -> Iterator[None]:
    """Holds the run's lock; where another engine has it, the refusal is told on stdout and not in that engine's files."""
    try:
        lock = Lock(run.lock, f"The run {run.root}")
    except UserError as error:
        with report.Reporter(style) as reporter:
            reporter.emit(Failed.of(error))
        raise
    with lock:
        yield


def _request(options: argparse.Namespace, run: RunDirectory) -> FitRequest:
    """Puts settings together (defaults, file or earlier run, command line) and starts the device."""
    base = RunSettings()
    source = RunDirectory.open(run.root).settings if options.resume else options.settings
    if source is not None:
        base = run_from_dict(read_json(source, "settings file"), where=str(source))
    settings = run_with_arguments(base, options)
    if settings.start.start not in ("", RANDOM_START):
        path = str(Path(settings.start.start).resolve())
        settings = replace(settings, start=replace(settings.start, start=path))
    notes: list[str] = []
    place = _start_device(settings.fit.device, settings.fit.threads, notes.append)
    with _first_import("splat_engine.fit.loop"):
        from splat_engine.fit.loop import FitRequest  # and with it scipy.spatial

    return FitRequest(
        capture=options.capture,
        run=run.root,
        settings=settings,
        resume=options.resume,
        version=program_version(),
        place=place,
        notes=tuple(notes),
    )


def _start_device(name: str = "cpu", threads: int = 0, warn: Callable[[str], None] = logger.warning) -> Place:
    """Imports torch, loads the native library, sets threads and allocator; returns the place that a setting names.

    Args:
        name: The setting ``device``.
        threads: The setting ``threads``.
        warn: Told why a card is left alone.

    Raises:
        UserError: torch or another package is not installed, the library is missing, or the card cannot be used.
    """
    try:
        with _first_import("torch"):
            import OpenEXR  # noqa: F401
            import PIL  # noqa: F401
            import scipy  # noqa: F401
            import torch
            import tqdm  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"The Python at {sys.executable} has no {error.name}: the engine cannot fit.",
            "Install it there: pip install 'splat-engine[fit]'; or choose another Python for the engine.",
            error,
        ) from error
    from splat_engine import native
    from splat_engine.fit.place import choose_place
    from splat_engine.native.memory import keep_freed_memory

    keep_freed_memory()
    count = threads or _cores()
    torch.set_num_threads(count)
    native.set_num_threads(count)
    return choose_place(name, warn)


@contextmanager
def _first_import(name: str) -> Iterator[None]:
    """Keeps the garbage collector from looking, again and again, through what a large import makes: all of it stays.

    It was a ninth of the time that torch and scipy need. Where the module is there already, nothing is done.
    """
    if name in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # not looked at later on either
        gc.enable()


def _cores() -> int:
    """Returns the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _log_to(path: Path) -> None:
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise write_failure(path, error) from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)


def _listening(options: argparse.Namespace) -> CommandQueue:
    """Returns where commands come from: signals, and stdin where it was asked for. After ``_start_device``."""
    from splat_engine.fit.commands import CommandQueue

    commands = CommandQueue()
    _catch_signals(commands)
    if options.commands:
        commands.listen(sys.stdin.fileno())
    return commands


def _catch_signals(commands: CommandQueue) -> None:
    """Ctrl-C and termination end the fit after the present step, with a checkpoint; the second one at once."""
    from splat_engine.fit.commands import Interrupt

    def interrupt(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        commands.put(Interrupt())

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


# -- the other commands ------------------------------------------------------------------------------------------------


def _load_splats(path: Path, formation: Formation | None) -> tuple[Splats, Formation]:
    """Reads splats from a PLY or a run, and says how they are to be drawn."""
    from splat_engine.formats.splat_ply import read_splat_ply

    file = path
    if path.is_dir():
        run = RunDirectory.open(path)
        file = run.splats if run.splats.is_file() else run.snapshot
        if not file.is_file():
            raise UserError(f"The run {path} has no splats yet.", "Let it finish, or save it.")
    splats, _, notes = read_splat_ply(file)
    for note in notes:
        logger.warning("%s", note)
    said = splats.metadata.get("formation")
    known: Formation = "blender" if said == "blender" else "classic"
    return splats, formation or known


def _capture_of(splats: Splats, given: Path | None, option: str) -> Capture:
    """Returns the capture that was named, or that the splats were fitted to."""
    path = given or splats.metadata.get("capture")
    if not path:
        raise UserError("The splats do not say which capture they were fitted to.", f"Name it with {option}.")
    return read_capture(path)


def _render(options: argparse.Namespace) -> int:
    place = _start_device(from_arguments(FitSettings, options).device)
    import torch
    from tqdm import tqdm

    from splat_engine.fit.formation import ImageFormation
    from splat_engine.fit.model import SplatState
    from splat_engine.fit.pictures import draw_view, rgba8, write_exr, write_png

    splats, name = _load_splats(options.splats, options.formation)
    capture = _capture_of(splats, options.cameras, "--cameras")
    views = [view for view in capture.views if options.split in ("all", view.split)]
    if not views:
        raise UserError(f"{capture.root} has no {options.split} view.", "Choose another --split.")
    if not options.scale > 0:
        raise UserError(f"--scale is {options.scale}.", "It must be above 0.")
    formation, params = ImageFormation(name), SplatState.from_splats(splats).to(place.device).params
    background = {"black": torch.zeros(3), "white": torch.ones(3)}.get(options.background)
    for stem, view in tqdm(list(zip(_stems(views), views, strict=True)), unit="view", disable=None):
        camera = view.camera.scaled(options.scale)
        drawn = draw_view(
            params,
            camera,
            formation,
            with_geometry=options.exr,
            through_filter=formation.is_linear,
            backend=place.backend,
        )
        write_png(options.out / f"{stem}.png", rgba8(drawn, formation, background))
        if options.exr:
            write_exr(options.out / f"{stem}.exr", drawn, formation)
    return EXIT_OK


def _stems(views: list[View]) -> list[str]:
    """Names of the pictures: those of the views' own files, made different by the split or a number if need be."""
    stems = [Path(view.exr or view.image or f"{number:04d}").stem for number, view in enumerate(views)]
    if len(set(stems)) < len(stems):
        stems = [f"{view.split}_{stem}" for view, stem in zip(views, stems, strict=True)]
    if len(set(stems)) < len(stems):
        stems = [f"{number:04d}_{stem}" for number, stem in enumerate(stems)]
    return stems


def _eval(options: argparse.Namespace) -> int:
    place = _start_device(from_arguments(FitSettings, options).device)
    from splat_engine.fit.data import CaptureImages
    from splat_engine.fit.formation import ImageFormation
    from splat_engine.fit.metrics import mean_scores, score_views
    from splat_engine.fit.model import SplatState

    splats, name = _load_splats(options.splats, options.formation)
    capture = _capture_of(splats, options.capture, "--capture")
    formation = ImageFormation.of(name, capture.info)
    images = CaptureImages(
        capture, options.split, formation, target=options.target, budget_bytes=0, device=place.device
    )
    if not len(images):
        raise UserError(f"{capture.root} has no {options.split} view.", "Choose the other --split.")
    params = SplatState.from_splats(splats).to(place.device).params
    filtered = formation.is_filtered_anew(options.split)
    scores = list(score_views(params, images, formation, place.backend, through_filter=filtered))
    means = {**mean_scores(scores), "formation": name, "splats": len(splats)}
    if options.json:
        report.say_json({**means, "views": {s.name: {"psnr": s.psnr, "ssim": s.ssim} for s in scores}})
        return EXIT_OK
    report.say_table({score.name: f"{score.psnr:6.2f} dB   SSIM {score.ssim:.4f}" for score in scores})
    report.say(
        f"mean of {len(scores)}: {means['engine.psnr']:.2f} dB, SSIM {means['engine.ssim']:.4f} ({name})"
    )
    return EXIT_OK


def _info(options: argparse.Namespace) -> int:
    from splat_engine.info import describe

    facts = describe(options.path)
    if options.json:
        report.say_json(facts)
    else:
        report.say_table(facts)
    return EXIT_OK


def _doctor(options: argparse.Namespace) -> int:
    from splat_engine.doctor import examine

    facts = {"version": program_version(), "python": sys.executable}
    place = _start_device("auto")
    facts |= {"device": str(place)}
    facts |= examine(place.memory_bytes())
    if options.json:
        report.say_json(facts)
    else:
        report.say_table(facts)
    return EXIT_OK


def _fit_image(options: argparse.Namespace) -> int:
    if (options.picture is None) == (options.example is None):
        raise UserError("fit-image wants a picture or an example.", "Name a picture, or give --example ring.")
    settings = from_arguments(ImageFitSettings, options)
    _start_device()
    from splat_engine.fit.image2d_report import run_image_fit

    metrics = run_image_fit(options.picture, settings, options.out)
    write_json(options.out / "metrics.json", metrics)
    report.say_table({"result": options.out, **metrics})
    return EXIT_OK
