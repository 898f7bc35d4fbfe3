"""What Blender itself draws of an imported splat object, seen by given cameras."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import View
from splat_engine.formats.exr import read_passes
from splat_engine.formats.files import write_failure

from ..capture.render import RenderOptions, Stage
from .encoding import Float32

_TRANSPARENT_BOUNCES = 256
"""Enough for every splat that stands behind another, where splats are shown as ellipsoids."""


@contextmanager
def _alone(object: bpy.types.Object) -> Iterator[Any]:
    """Yields a scene of its own that holds the object and nothing else: no light, world or original."""
    scene: Any = bpy.data.scenes.new("Splatfit Render")
    try:
        scene.collection.objects.link(object)
        yield scene
    finally:
        bpy.data.scenes.remove(scene)


_SEED_STRIDE = 100_003
"""Views of one call have seeds one after the other; those of two calls shall not meet."""


def render_files(
    object: bpy.types.Object,
    cameras: Sequence[Camera],
    paths: Sequence[Path],
    *,
    samples: int = 256,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Renders an object alone with Cycles into one multilayer EXR a camera (Combined: premultiplied linear RGBA).

    The object is shown even where it is hidden in its scene. Nothing in the file changes.

    Args:
        object: The splat object.
        cameras: The views.
        paths: A file each; folders are made.
        samples: Of Cycles. Native splats are a stochastic alpha test: the noise falls with the root of this.
        seed: Another one gives other noise.
        progress: Told how many views of how many are done.

    Raises:
        UserError: A file cannot be written, or Blender cannot render.
    """
    options = RenderOptions("CYCLES", samples, denoise=False, transparent=True, passes=("depth",))
    hidden = object.hide_render
    with _alone(object) as scene:
        scene.cycles.transparent_max_bounces = _TRANSPARENT_BOUNCES
        try:
            object.hide_render = False
            with Stage(scene, scene.view_layers[0], options) as stage:
                for number, (camera, path) in enumerate(zip(cameras, paths, strict=True)):
                    _make_folder(path.parent)
                    stage.render_view(camera, path, samples=samples, seed=_SEED_STRIDE * seed + number)
                    progress(number + 1, len(cameras))
        finally:
            object.hide_render = hidden


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_failure(folder, error) from error


def render_object_views(
    object: bpy.types.Object, cameras: Sequence[Camera], *, samples: int = 256
) -> list[Float32]:
    """Returns what Cycles draws of an object alone: premultiplied linear RGBA [H, W, 4] for each camera.

    Raises:
        UserError: Blender cannot render.
    """
    with tempfile.TemporaryDirectory(prefix="splatfit-") as folder:
        paths = [Path(folder) / f"{number:04d}.exr" for number in range(len(cameras))]
        render_files(object, cameras, paths, samples=samples)
        return [np.asarray(read_passes(path, ("color",))["color"], np.float32) for path in paths]


def view_name(view: View, number: int) -> str:
    """Returns the name of a view's files: that of the capture's own, else its number from 1."""
    stored = view.exr or view.image
    return Path(stored).stem if stored else f"{number + 1:04d}"
