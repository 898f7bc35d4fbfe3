"""Measures what a fit is worth: scenes built by script, each fitted with each setting, on held-out views.

    python -m tools.bench.quality                                   everything; a rerun does only what is missing
    python -m tools.bench.quality --scenes matte hair --settings default none --blender
    python -m tools.bench.quality --list

A finished (scene, setting) is one JSON record; it is made anew only if the scene's script, the capture's or the
engine's code, or the options have changed. Leaves table.md, table.json and sheets/SCENE.png in the output folder.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from splat_engine.formats.files import write_bytes, write_json
from tools.bench.quality.plan import DATASET, ROOT, SETTINGS, SUBJECTS, Subject
from tools.bench.quality.records import Record
from tools.bench.quality.stages import Layout, ensure_capture, ensure_fit
from tools.bench.quality.table import document, machine_line, markdown
from tools.pipeline import StageError

EXIT_OK, EXIT_FAILED = 0, 1


def parse(words: list[str] | None) -> Any:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="tools/bench/quality", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", nargs="+", choices=SUBJECTS, default=list(SUBJECTS), metavar="SCENE")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "quality", help="folder of all files")
    parser.add_argument("--threads", type=int, default=0, help="of a fit; 0: all cores")
    parser.add_argument("--blender", action="store_true", help="also measure what Blender's Cycles draws")
    parser.add_argument("--captures-only", action="store_true", help="render the captures, fit nothing")
    parser.add_argument("--list", action="store_true", help="name the scenes and settings, and stop")
    return parser.parse_args(words)


def say_list() -> None:
    """Names the scenes and settings."""
    for name, subject in SUBJECTS.items():
        what = (
            f"{subject.size_px} px, {' '.join(subject.capture_options())}" if subject.scene else str(DATASET)
        )
        print(f"scene    {name:12} {what}")
    for name, words in SETTINGS.items():
        print(f"setting  {name:12} {' '.join(words) or '(the defaults)'}")


def present(names: list[str]) -> list[Subject]:
    """Returns the scenes asked for; says which one this machine lacks."""
    subjects = [SUBJECTS[name] for name in names]
    for subject in subjects:
        if not subject.scene and not DATASET.is_dir():
            print(f"{subject.name} is left out: there is no {DATASET}")
    return [subject for subject in subjects if subject.scene or DATASET.is_dir()]


def write_results(layout: Layout, records: list[Record]) -> None:
    """Writes the table in both forms, and each scene's contact sheet."""
    from tools.bench.quality.pictures import write_sheet

    machine = machine_line()
    write_json(layout.root / "table.json", document(records, machine))
    write_bytes(layout.root / "table.md", markdown(records, machine).encode())
    for name in dict.fromkeys(record["scene"] for record in records):
        of_scene = [record for record in records if record["scene"] == name]
        runs = [
            (
                f"{r['setting']}: {r['psnr_db']:.2f} dB, SSIM {r['ssim']:.3f}, {r['splats']} splats",
                layout.run(SUBJECTS[name], r["setting"]),
            )
            for r in of_scene
        ]
        write_sheet(f"{name}: truth, fit, difference x 4", runs, layout.root / "sheets" / f"{name}.png")


def run(options: Any, layout: Layout) -> int:
    """Measures what was asked for; a scene that fails is told and does not stop the others. Returns the exit code."""
    records, failed = [], 0
    for subject in present(options.scenes):
        for setting in [] if options.captures_only else options.settings:
            try:
                record = ensure_fit(
                    layout, subject, setting, threads=options.threads, blender=options.blender
                )
            except StageError as error:
                print(error, file=sys.stderr)
                failed += 1
                continue
            records.append(record)
            print(f"{subject.name:12} {setting:10} {record['psnr_db']:6.2f} dB", flush=True)
            write_results(layout, records)
        if options.captures_only:
            ensure_capture(layout, subject)
    if records:
        print((layout.root / "table.md").read_text())
    return EXIT_FAILED if failed else EXIT_OK


def main(words: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    options = parse(words)
    if options.list:
        say_list()
        return EXIT_OK
    return run(options, Layout(options.out))
