"""Fits whose quality is known: of splats in memory, which needs torch alone, and of a data set on the disk."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from splat_engine.fit.drawing import draw
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.metrics import mean_scores, score_views
from splat_engine.fit.model import SplatState
from splat_engine.fit.place import Place, send
from splat_engine.fit.trainer import Trainer
from splat_engine.fit.views import ViewList, ViewTensors, camera_tensors, mapped, view_tensors
from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import SH_C0
from splat_engine.formats.settings import FitSettings, RunSettings, StartSettings
from splat_engine.formats.splats import Splats

EXTENT = 4.4
HELD_OUT = 6
"""Every how many-th view of the scene in memory is held out."""


def body(count: int) -> Splats:
    """Returns a round body of flat, opaque splats in bright patterns, evenly spread."""
    number = np.arange(count) + 0.5
    height, angle = 1 - 2 * number / count, math.pi * (1 + math.sqrt(5)) * number
    ring = np.sqrt(1 - height**2)
    normals = np.stack((ring * np.cos(angle), ring * np.sin(angle), height), axis=1)
    bumps = 1 + 0.15 * np.sin(5 * normals[:, :1]) * np.cos(4 * normals[:, 1:2])
    colors = 0.5 + 0.4 * np.sin(7 * normals + np.array([0.0, 2.0, 4.0]))
    size = 1.2 * math.sqrt(4 * math.pi / count)
    quats = np.stack((1 + height, -normals[:, 1], normals[:, 0], np.zeros(count)), axis=1)
    return Splats(
        means=(normals * bumps).astype(np.float32),
        log_scales=np.tile(np.log([size, size, 0.2 * size]), (count, 1)).astype(np.float32),
        quats_wxyz=(quats / np.linalg.norm(quats, axis=1, keepdims=True)).astype(np.float32),
        opacity_logits=np.full(count, 2.5, np.float32),
        sh=((colors - 0.5) / SH_C0)[:, None, :].astype(np.float32),
    )


def start(count: int, seed: int = 1) -> Splats:
    """Returns grey points near the body, as a fit may begin with."""
    splats, rng = body(count), np.random.default_rng(seed)
    size = math.log(1.5 * math.sqrt(4 * math.pi / count))
    return Splats(
        means=splats.means + rng.normal(scale=0.03, size=splats.means.shape).astype(np.float32),
        log_scales=np.full_like(splats.log_scales, size),
        quats_wxyz=np.tile(np.array([1, 0, 0, 0], np.float32), (count, 1)),
        opacity_logits=np.zeros_like(splats.opacity_logits),
        sh=np.zeros_like(splats.sh),
    )


def cameras(count: int, size_px: int) -> list[Camera]:
    """Returns cameras around the body, four units away, at changing heights."""
    made = []
    for number in range(count):
        angle, up = 2 * math.pi * number / count, 0.5 * math.sin(2.4 * number)
        position = 4 * np.array(
            [math.cos(angle) * math.cos(up), math.sin(angle) * math.cos(up), math.sin(up)]
        )
        forward = -position / np.linalg.norm(position)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        pose = np.eye(4)
        pose[:3, :3] = np.stack((right, np.cross(forward, right), forward), axis=1)
        pose[:3, 3] = position
        made.append(Camera(size_px, size_px, 1.4 * size_px, 1.4 * size_px, size_px / 2, size_px / 2, pose))
    return made


def fit_in_memory(place: Place, *, splats: int, views: int, size_px: int, steps: int) -> dict[str, Any]:
    """Fits the body from views that the processor draws; returns held-out PSNR before and after, and the time."""
    run = RunSettings(fit=FitSettings(steps=steps, max_splats=4 * splats))
    formation = ImageFormation(run.fit.formation)
    drawn = [_view(camera, splats, formation, place) for camera in cameras(views, size_px)]
    test = ViewList(drawn[::HELD_OUT])
    train = ViewList([view for number, view in enumerate(drawn) if number % HELD_OUT])
    warnings: list[str] = []
    state = SplatState.from_splats(start(splats // 2)).to(place.device)
    trainer = Trainer(run, train, state, extent=EXTENT, warn=warnings.append, backend=place.backend)

    def psnr() -> float:
        scores = score_views(trainer.state.params, test, formation, place.backend)
        return mean_scores(list(scores))["engine.psnr"]

    before, begin_s = psnr(), time.perf_counter()
    for _ in range(steps):
        trainer.train_step()
    after = psnr()  # reads numbers back, so the card has finished
    seconds = time.perf_counter() - begin_s
    return {
        "psnr_before": before,
        "psnr": after,
        "splats": len(trainer.state),
        "steps": steps,
        "fit_seconds": seconds,
        "warnings": warnings,
    }


def _view(camera: Camera, splats: int, formation: ImageFormation, place: Place) -> ViewTensors:
    viewmat, intrinsics = camera_tensors(camera)
    params = SplatState.from_splats(body(splats)).params
    with torch.no_grad():
        drawn = draw(params, viewmat, intrinsics, camera, formation, background=torch.zeros(3))
    view = view_tensors(camera, drawn.blended, drawn.alpha)
    return mapped(view, lambda value: send(value, place.device))


def fit_data_set(place: Place, dataset: Path, *, steps: int) -> dict[str, Any]:
    """Runs the whole engine on a data set; returns its metrics and the time.

    Raises:
        ImportError: A package that reads pictures is not installed.
    """
    from splat_engine.fit.commands import CommandQueue  # not above: they need OpenEXR, Pillow and scipy
    from splat_engine.fit.loop import FitRequest, run_fit

    points = dataset / "points3d_10k.ply"
    settings = RunSettings(
        fit=FitSettings(steps=steps, snapshot_interval=0),
        start=StartSettings(start=str(points) if points.is_file() else ""),
    )
    with tempfile.TemporaryDirectory() as folder:
        request = FitRequest(dataset, Path(folder), settings, place=place)
        begin_s = time.perf_counter()
        finished = run_fit(request, lambda event: None, CommandQueue())
        return {**finished.metrics, "run_seconds": time.perf_counter() - begin_s}
