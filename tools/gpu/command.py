"""Checks and measures the engine on this machine's NVIDIA card; one JSON file says everything.

    tools/gpu_check --json gpu.json                   on a card: under eight minutes
    tools/gpu_check --json gpu.json --dataset DIR     also fits this data set
    tools/gpu_check --emulate                         without a card, on tiny inputs: shows that the command works
    tools/gpu_check --floor                           the least times of the bench inputs as a table; needs no card

It builds the processor's library, holds the card's images and gradients to it, fits splats in memory (and a data set where
pictures can be read), times the bench inputs and each kernel, and does the same by gsplat where that is installed. A part
that fails does not keep the others from being done. It needs torch, numpy and pytest, and cuda-core where the kernels have
not been compiled before; what else is missing is named. Exit code 1: something failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATASET = ROOT.parent / "shared" / "data" / "dataset" / "suzanne256"
LIMIT_S = 420
"""No part is begun later: the whole shall end within eight minutes."""
EMULATED_FLOOR_DRAWN = 300_000
"""Splats up to which an emulated floor counts the buckets by drawing."""


def parse(words: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="tools/gpu_check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was found to this file")
    parser.add_argument("--device", default="cuda", help="the card: cuda or cuda:N")
    parser.add_argument("--dataset", type=Path, help="a data set to fit; default: suzanne256, if it is there")
    parser.add_argument("--seconds", type=float, default=2.0, help="of rounds, for each figure of speed")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), help="do these parts alone")
    parser.add_argument("--emulate", action="store_true", help="without a card, on tiny inputs")
    parser.add_argument("--floor", action="store_true", help="print the table of least times, and end")
    return parser.parse_args(words)


PARTS = ("build", "machine", "tests", "fit", "dataset", "speed", "gsplat")
"""In the order in which they are done."""


def run_part(name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Does one part; returns its figures with "state" and "seconds", whatever happens."""
    begin_s = time.perf_counter()
    state, text, figures = "ok", "", {}
    try:
        figures = work()
    except Exception as error:
        kind = type(error).__name__
        state = "skipped" if kind == "Skipped" else "failed"
        text = str(error) if kind in ("Skipped", "Failed") else traceback.format_exc(limit=-6)
        figures = getattr(error, "figures", {})
    seconds = time.perf_counter() - begin_s
    print(f"{name}: {state}, {seconds:.1f} s{': ' + text if text else ''}", flush=True)
    return {"state": state, "seconds": seconds, **({"text": text} if text else {}), **figures}


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[Any]:
    """Gives what the parts are told, with the card ready, or emulated while this lasts.

    Raises:
        UserError: The card or its kernels cannot be had.
    """
    import torch

    from splat_engine.fit.place import Place, choose_place
    from tools.gpu.checks import Check

    found = options.dataset or (DATASET if DATASET.is_dir() else None)
    if not options.emulate:
        from splat_engine.ops._cuda.card import card_launcher

        place = choose_place(options.device)
        yield Check(place, card_launcher(place.device), False, found, options.seconds)
        return
    from splat_engine.ops._cuda.launch import emulated_by
    from tests.cuda.emulation.launcher import EmulatedLauncher

    launcher = EmulatedLauncher()
    with emulated_by(launcher):
        yield Check(Place(torch.device("cpu"), "cuda"), launcher, True, found, min(options.seconds, 0.05))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Does all parts; returns the whole report."""
    begin_s = time.perf_counter()
    report: dict[str, Any] = {"emulated": options.emulate, "parts": {}}
    parts = report["parts"]
    if "build" in options.part:
        parts["build"] = run_part("build", lambda: _checks().build())
    try:
        with opened(options) as check:
            checks = _checks()
            works = {"tests": checks.tests, "fit": checks.fit, "dataset": checks.dataset}
            works |= {"machine": checks.machine, "speed": checks.speeds, "gsplat": checks.gsplat}
            for name in options.part:
                if name == "build":
                    continue
                if time.perf_counter() - begin_s > LIMIT_S:
                    parts[name] = {"state": "failed", "text": f"not begun: {LIMIT_S} s are over"}
                    continue
                parts[name] = run_part(name, lambda work=works[name]: work(check))  # type: ignore[misc]
    except Exception as error:
        # The card cannot be had: an error that a person reads, and the parts that need it are not done.
        parts["card"] = {"state": "failed", "text": f"{type(error).__name__}: {error}"}
        print(f"card: failed: {error}", flush=True)
    report["ok"] = all(part["state"] != "failed" for part in parts.values())
    report["seconds"] = time.perf_counter() - begin_s
    return report


def _checks() -> Any:
    from tools.gpu import checks  # not above: torch may be missing, which shall be said in words

    return checks


def print_floor() -> None:
    """Counts the bench inputs, emulated, and prints the table."""
    import torch

    from splat_engine.ops._cuda.launch import emulated_by
    from tests.cuda.emulation.launcher import EmulatedLauncher
    from tools.gpu.speed import INPUTS

    with emulated_by(EmulatedLauncher()):
        lines = _checks().floor(
            INPUTS, torch.device("cpu"), draws=lambda size: size[0] <= EMULATED_FLOOR_DRAWN
        )
    print("\n".join(lines))


def main(words: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    options = parse(words)
    if options.floor:
        print_floor()
        return 0
    report = run(options)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    print(f"{'all is well' if report['ok'] else 'something failed'}, {report['seconds']:.0f} s")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
