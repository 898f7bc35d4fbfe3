"""Where the first splats come from: a file, the surfaces that the views show, the capture's points, or nowhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from splat_engine.fit.shelf import LayerShelf
from splat_engine.fit.start.dense import SAMPLES_MOST, SAMPLES_PER_SPLAT, dense_splats
from splat_engine.fit.start.points import RANDOM_OPACITY, random_points, splats_from_points
from splat_engine.fit.start.scene import scene_extent
from splat_engine.fit.start.surfaces import read_surfaces, shows_surfaces
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture
from splat_engine.formats.colmap import is_colmap, read_colmap_points
from splat_engine.formats.errors import UserError
from splat_engine.formats.ply import read_ply_element
from splat_engine.formats.point_ply import Points, read_point_ply
from splat_engine.formats.settings import RANDOM_START, RunSettings
from splat_engine.formats.splat_ply import read_splat_ply
from splat_engine.formats.splats import Splats

Warn = Callable[[str], None]


class Start(NamedTuple):
    """How a fit begins.

    Attributes:
        splats: The first ones.
        extent: The scene's, scene units.
        is_dense: Whether they cover the surfaces that the views show.
    """

    splats: Splats
    extent: float
    is_dense: bool = False


def start_splats(
    capture: Capture,
    settings: RunSettings,
    rng: np.random.Generator,
    warn: Warn,
    shelf: LayerShelf | None = None,
) -> Start:
    """Returns how a fit begins.

    Where the settings name no start: splats on the surfaces that the training views' depth passes show; without such
    passes, or where they show none, the capture's init.ply; without that, random splats.

    Args:
        capture: The capture.
        settings: Those of the start; max_splats, sh_degree and target of the fit.
        rng: Places random points, and chooses where there are too many.
        warn: Told in a sentence what is not as it should be.
        shelf: Keeps of the views' files what will be wanted again.

    Raises:
        UserError: The file of the start is missing or damaged, or holds no usable point.
    """
    if settings.start.start == RANDOM_START:
        start = _at_random(capture, settings, rng)
    elif settings.start.start:
        start = _from_file(capture, Path(settings.start.start), settings, rng, warn)
    else:
        start = _from_capture(capture, settings, rng, warn, shelf)
    if not len(start.splats):
        raise UserError(
            f"{settings.start.start or capture.init or capture.root} holds no usable point to start from.",
            "Capture again with start points, or name another file with --start.",
        )
    return start


def _from_capture(
    capture: Capture, settings: RunSettings, rng: np.random.Generator, warn: Warn, shelf: LayerShelf | None
) -> Start:
    if shows_surfaces(capture):
        start = _from_surfaces(capture, settings, rng, shelf)
        if len(start.splats):
            return start
    if capture.init is not None:
        return _from_file(capture, capture.init, settings, rng, warn)
    return _at_random(capture, settings, rng)


def _at_random(capture: Capture, settings: RunSettings, rng: np.random.Generator) -> Start:
    points = random_points(capture, min(settings.start.random_points, settings.fit.max_splats), rng)
    extent = scene_extent(capture)
    opacity = min(settings.start.start_opacity, RANDOM_OPACITY)
    splats = splats_from_points(points, extent=extent, opacity=opacity, cameras=_cameras(capture))
    return Start(splats, extent)


def _from_surfaces(
    capture: Capture, settings: RunSettings, rng: np.random.Generator, shelf: LayerShelf | None
) -> Start:
    count = min(settings.start.start_splats, settings.fit.max_splats)
    most = max(count, min(SAMPLES_PER_SPLAT * count, SAMPLES_MOST))
    workers = settings.fit.threads or os.cpu_count() or 1
    samples = read_surfaces(capture, most, settings.fit.target, rng, workers, shelf)
    extent = scene_extent(capture, samples.positions)
    splats = dense_splats(
        samples,
        count,
        extent=extent,
        opacity=settings.start.start_opacity,
        cameras=_cameras(capture),
        rng=rng,
        workers=workers,
    )
    return Start(splats, extent, is_dense=True)


def _from_file(
    capture: Capture, path: Path, settings: RunSettings, rng: np.random.Generator, warn: Warn
) -> Start:
    most = settings.fit.max_splats
    from_colmap = is_colmap(path)
    if not from_colmap and "f_dc_0" in read_ply_element(path).properties:
        splats, _, notes = read_splat_ply(path)
        for note in notes:
            warn(note)
        splats = splats.select(splats.finite())
        splats = splats.select(_chosen(len(splats), most, rng, warn))
        splats = splats.with_sh_degree(min(splats.sh_degree, settings.fit.sh_degree))
        return Start(splats, scene_extent(capture, splats.means))
    points = read_colmap_points(path, capture.world_from_colmap) if from_colmap else read_point_ply(path)
    chosen = _chosen(len(points), most, rng, warn)
    points = Points(points.positions[chosen], points.colors[chosen], points.normals[chosen])
    extent = scene_extent(capture, points.positions)
    opacity = settings.start.start_opacity
    splats = splats_from_points(points, extent=extent, opacity=opacity, cameras=_cameras(capture))
    return Start(splats, extent)


def _cameras(capture: Capture) -> list[Camera]:
    return [view.camera for view in capture.of_split("train")]


def _chosen(count: int, most: int, rng: np.random.Generator, warn: Warn) -> NDArray[np.int64]:
    """Indices of all rows, or of a random choice in ascending order where there are too many."""
    if count <= most:
        return np.arange(count)
    warn(f"The start holds {count} points; {most} of them are taken (the most splats allowed).")
    return np.sort(rng.choice(count, most, replace=False))
