"""The benchmark's results as one JSON document and one Markdown table."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from tools.bench.quality.records import Record

COLUMNS: dict[str, tuple[str, str]] = {
    "scene": ("scene", "{}"),
    "setting": ("setting", "{}"),
    "size_px": ("px", "{}"),
    "capture_wall_s": ("capture s", "{:.0f}"),
    "capture_cpu_s": ("CPU s", "{:.0f}"),
    "fit_wall_s": ("fit s", "{:.0f}"),
    "fit_cpu_s": ("CPU s", "{:.0f}"),
    "steps": ("steps", "{}"),
    "splats": ("splats", "{}"),
    "psnr_db": ("PSNR dB", "{:.2f}"),
    "ssim": ("SSIM", "{:.4f}"),
    "blender_psnr_db": ("Blender dB", "{:.2f}"),
    "blender_noiseless_db": ("without noise", "{:.2f}"),
    "blender_ssim": ("Blender SSIM", "{:.4f}"),
    "ply_bytes": ("PLY MB", "{:.1f}"),
}
"""Key of a record to the column's head and format; a key that no record has gives no column."""
_SCALES = {"ply_bytes": 1e-6}


def cell(record: Record, key: str) -> str:
    """Returns a value as text; "" where the record has none."""
    if key not in record:
        return ""
    value = record[key] * _SCALES[key] if key in _SCALES else record[key]
    return COLUMNS[key][1].format(value)


def markdown(records: list[Record], machine: str) -> str:
    """Returns the table with a line for each record, and the machine below it."""
    keys = [key for key in COLUMNS if any(key in record for record in records)]
    head = "| " + " | ".join(COLUMNS[key][0] for key in keys) + " |"
    lines = [head, "|" + "---|" * len(keys)]
    lines += ["| " + " | ".join(cell(record, key) for key in keys) + " |" for record in records]
    return "\n".join([*lines, "", machine, ""])


def document(records: list[Record], machine: str) -> dict[str, Any]:
    """Returns the same as plain values for a JSON file."""
    return {"machine": machine, "records": records}


def machine_line() -> str:
    """Returns this machine in words: processor, cores, versions."""
    import torch

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores; Python {platform.python_version()}, torch {torch.__version__}"
