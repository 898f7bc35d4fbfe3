"""A capture made in the test: known splats drawn by our own op, as the EXR files that Blender would write."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from splat_engine.fit.exr import write_layers
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import SplatState
from splat_engine.fit.pictures import draw_view, rgba8, write_exr, write_png
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture, CaptureInfo, View, mark_held_out, write_capture
from splat_engine.formats.conventions import SH_C0, Formation, linear_from_srgb
from splat_engine.formats.point_ply import Points, write_point_ply
from splat_engine.formats.splats import Splats

WIDTH, HEIGHT = 44, 36


def look_at(position: np.ndarray, target: np.ndarray | None = None) -> np.ndarray:
    """Returns world_from_camera, OpenCV axes, of a camera that looks at a point with Z up."""
    forward = (np.zeros(3) if target is None else target) - position
    forward = forward / np.linalg.norm(forward)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack((right, np.cross(forward, right), forward), axis=1)
    pose[:3, 3] = position
    return pose


def ring_cameras(count: int = 8, width: int = WIDTH, height: int = HEIGHT) -> list[Camera]:
    """Returns cameras on a circle of radius 4, at changing heights, looking at the origin."""
    cameras = []
    for number in range(count):
        angle = 2 * math.pi * number / count
        position = np.array([4 * math.cos(angle), 4 * math.sin(angle), 0.7 + 0.8 * math.sin(3 * angle)])
        cameras.append(
            Camera(width, height, 1.1 * width, 1.1 * width, width / 2, height / 2, look_at(position))
        )
    return cameras


def known_splats(count: int = 120, seed: int = 0) -> Splats:
    """Returns splats in a shell of radius 1, opaque enough to make a body, with varied colours."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    colors = 0.5 + 0.45 * np.sin(3 * directions + rng.normal(scale=0.3, size=(count, 3)))
    return Splats(
        means=directions.astype(np.float32),
        log_scales=np.log(rng.uniform(0.08, 0.25, size=(count, 3))).astype(np.float32),
        quats_wxyz=rng.normal(size=(count, 4)).astype(np.float32),
        opacity_logits=rng.uniform(1.0, 3.0, size=count).astype(np.float32),
        sh=((colors - 0.5) / SH_C0)[:, None, :].astype(np.float32),
    )


def perturbed(splats: Splats, seed: int = 1, amount: float = 0.06) -> Splats:
    """Returns the splats moved, recoloured, and all of one size and opacity."""
    rng = np.random.default_rng(seed)
    return Splats(
        means=splats.means + rng.normal(scale=amount, size=splats.means.shape).astype(np.float32),
        log_scales=np.full_like(splats.log_scales, math.log(0.12)),
        quats_wxyz=np.tile(np.float32([1, 0, 0, 0]), (len(splats), 1)),
        opacity_logits=np.zeros_like(splats.opacity_logits),
        sh=splats.sh + rng.normal(scale=0.3, size=splats.sh.shape).astype(np.float32),
    )


def points_of(splats: Splats) -> Points:
    """Returns the splats' centres as coloured points with outward normals."""
    encoded = np.clip(0.5 + SH_C0 * splats.sh[:, 0], 0, 1)
    normals = splats.means / np.linalg.norm(splats.means, axis=1, keepdims=True)
    return Points(splats.means, linear_from_srgb(encoded).astype(np.float32), normals.astype(np.float32))


def write_tiny_capture(
    root: Path,
    *,
    views: int = 8,
    hold_out: int = 4,
    splats: Splats | None = None,
    formation: Formation = "blender",
    cameras: list[Camera] | None = None,
    pictures: bool = False,
    with_init: bool = True,
    with_passes: bool = True,
    box_filtered: bool = False,
) -> Capture:
    """Draws splats and writes transforms.json, views/*.exr with depth and normals, init.ply, images/*.png on request.

    Without passes the capture does not say that the files hold any. Box-filtered, the held-out views alone go through
    Blender's pixel filter.
    """
    splats = known_splats() if splats is None else splats
    how = ImageFormation.of(formation, CaptureInfo(box_filtered=box_filtered))
    params = SplatState.from_splats(splats).params
    made = []
    for number, camera in enumerate(cameras or ring_cameras(views)):
        filtered = box_filtered and number % hold_out == hold_out // 2
        drawn = draw_view(params, camera, how, with_geometry=True, through_filter=filtered)
        exr = f"views/{number:04d}.exr"
        write_exr(root / exr, drawn, how)
        image = None
        if pictures:
            image = f"images/{number:04d}.png"
            write_png(root / image, rgba8(drawn, how))
        made.append(View(replace(camera, name=f"ring {number}"), exr=exr, image=image))
    init = root / "init.ply" if with_init else None
    if init is not None:
        write_point_ply(init, points_of(splats))
    capture = Capture(
        root=root,
        views=mark_held_out(made, hold_out),
        info=CaptureInfo(passes=("depth", "normal") if with_passes else (), box_filtered=box_filtered),
        init=init,
    )
    write_capture(capture)
    return capture


def write_view(path: Path, combined: np.ndarray, **layers: np.ndarray) -> None:
    """Writes one multilayer EXR; Depth and Normal as keywords."""
    write_layers(path, {"Combined": combined, **layers})


def tensors(splats: Splats) -> dict[str, torch.Tensor]:
    """Returns the parameters as leaf tensors."""
    return SplatState.from_splats(splats).params
