"""What ``splat-engine info`` says of a file or a folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from splat_engine.formats.capture import TRANSFORMS_NAME, read_capture
from splat_engine.formats.errors import UserError
from splat_engine.formats.files import read_json
from splat_engine.formats.ply import read_ply_element
from splat_engine.formats.point_ply import read_point_ply
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.splat_ply import read_splat_ply
from splat_engine.formats.splats import Int32

_OBJECTS_TOLD = 12


def describe(path: Path) -> dict[str, Any]:
    """Returns facts about a PLY, a capture, a run or a checkpoint, as plain values in the order to tell them.

    Raises:
        UserError: There is nothing, it is damaged, or it is none of these.
    """
    if not path.exists():
        raise UserError(f"There is nothing at {path}.", "Check the path.")
    if path.is_dir():
        return _run(path) if RunDirectory(path).settings.is_file() else _capture(path)
    if path.name == TRANSFORMS_NAME or path.suffix == ".json":
        return _capture(path)
    if path.suffix == ".pt":
        return _checkpoint(path)
    return _ply(path)


def _ply(path: Path) -> dict[str, Any]:
    element = read_ply_element(path)
    if "f_dc_0" not in element.properties:
        points = read_point_ply(path)
        has_normals = bool(np.linalg.norm(points.normals, axis=1).any())
        return {"kind": "points", "points": len(points), "normals": has_normals, **_box(points.positions)}
    splats, extra, notes = read_splat_ply(path)
    good = splats.select(splats.finite())
    facts: dict[str, Any] = {"kind": "splats", "splats": len(splats), "sh degree": splats.sh_degree}
    facts |= _box(good.means)
    if len(good):
        facts["opacity, median"] = round(float(np.median(good.opacities())), 4)
        facts["size, median"] = float(f"{np.median(good.scales().max(axis=1)):.4g}")
    facts |= splats.metadata
    if splats.object_indices is not None:
        facts["splats of objects"] = _objects(splats.object_indices, splats.object_names)
    if extra:
        facts["extra properties"] = ", ".join(extra)
    if notes:
        facts["notes"] = " ".join(notes)
    return facts


def _objects(indices: Int32, names: tuple[str, ...]) -> str:
    """Returns how many splats show each object, the most frequent first."""
    found = Counter(indices.tolist()).most_common()
    told = [f"{names[index - 1] if index else 'unknown'} {count}" for index, count in found[:_OBJECTS_TOLD]]
    more = len(found) - len(told)
    return ", ".join([*told, f"{more} more"] if more else told)


def _box(positions: Any) -> dict[str, Any]:
    if not len(positions):
        return {}
    low, high = positions.min(axis=0), positions.max(axis=0)
    return {"box from": [float(f"{x:.4g}") for x in low], "box to": [float(f"{x:.4g}") for x in high]}


def _capture(path: Path) -> dict[str, Any]:
    capture = read_capture(path)
    sizes = Counter(f"{view.camera.width} x {view.camera.height}" for view in capture.views)
    facts: dict[str, Any] = {
        "kind": "capture",
        "views": len(capture.views),
        "held out": len(capture.of_split("test")),
        "sizes": ", ".join(f"{count} of {size}" for size, count in sizes.items()),
        "camera models": ", ".join(sorted({view.camera.model for view in capture.views})),
        "colours": capture.info.color_space,
        "passes": ", ".join(capture.info.passes) or "none",
        "start points": str(capture.init) if capture.init else "none",
    }
    if capture.info.source:
        facts["source"] = capture.info.source
    if capture.notes:
        facts["notes"] = " ".join(capture.notes)
    return facts


def _run(path: Path) -> dict[str, Any]:
    run = RunDirectory.open(path)
    settings = read_json(run.settings, "settings file")
    facts: dict[str, Any] = {"kind": "run", "steps": settings["fit"]["steps"]}
    facts["formation"] = settings["fit"]["formation"]
    named = {"result": run.splats, "snapshot": run.snapshot, "checkpoint": run.checkpoint}
    facts["has"] = ", ".join(name for name, file in named.items() if file.is_file()) or "nothing yet"
    if run.metrics.is_file():
        facts |= read_json(run.metrics, "metrics file")
    return facts


def _checkpoint(path: Path) -> dict[str, Any]:
    from splat_engine.fit.checkpoint import load_checkpoint

    values = load_checkpoint(path)
    trainer = values["trainer"]
    return {
        "kind": "checkpoint",
        "step": trainer["step"],
        "steps": values["settings"]["fit"]["steps"],
        "splats": len(trainer["splats"]["params"]["means"]),
        "formation": values["settings"]["fit"]["formation"],
        "seconds": round(values["seconds"], 1),
        "capture": values["capture"],
    }
