"""What a run begins with: the views of its capture, and a trainer on its first splats or on those of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from splat_engine.fit.ahead import Ahead
from splat_engine.fit.data import CaptureImages
from splat_engine.fit.decoding import reads_linear
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.losses import loss_space_of
from splat_engine.fit.model import SplatState
from splat_engine.fit.place import CPU, Place
from splat_engine.fit.start import Start, start_splats
from splat_engine.fit.strategies import strategy_of
from splat_engine.fit.trainer import Trainer
from splat_engine.formats.capture import Capture, Split
from splat_engine.formats.settings import RunSettings

Warn = Callable[[str], None]


@dataclass(frozen=True)
class FitRequest:
    """What is to be fitted, and where the result goes.

    Attributes:
        capture: The capture's folder or transforms.json.
        run: The run's folder. An earlier run in it is replaced, unless ``resume``.
        settings: All settings.
        resume: Go on from the run's checkpoint.
        version: Of the program, for the records.
        place: Where the fit is.
        notes: Warnings from before the run began.
        ahead: What was made before torch was there, of the same capture and settings.
    """

    capture: Path
    run: Path
    settings: RunSettings
    resume: bool = False
    version: str = ""
    place: Place = CPU
    notes: tuple[str, ...] = ()
    ahead: Ahead = Ahead()


@dataclass(frozen=True)
class Prepared:
    """All that a run works with.

    Attributes:
        capture: What is fitted.
        formation: How views are drawn.
        images, test_images: The training views, and those held out.
        trainer: On the first splats, or where the checkpoint was.
    """

    capture: Capture
    formation: ImageFormation
    images: CaptureImages
    test_images: CaptureImages
    trainer: Trainer

    @property
    def root(self) -> str:
        """The capture's whole path, for the records."""
        return str(self.capture.root.resolve())


def prepare(request: FitRequest, capture: Capture, checkpoint: dict[str, Any] | None, warn: Warn) -> Prepared:
    """Checks the views, and places the first splats or takes those of a checkpoint.

    Args:
        request: What and where.
        capture: The request's.
        checkpoint: To go on from, or None.
        warn: Told in a sentence what is not as it should be.

    Raises:
        UserError: A view or the start is missing, damaged or of the wrong size.
    """
    formation = ImageFormation.of(request.settings.fit.formation, capture.info)
    images = _images(request, capture, "train", formation, warn)
    test_images = _images(request, capture, "test", formation, warn)
    trainer = _trainer(request, capture, images, formation, checkpoint, warn)
    return Prepared(capture, formation, images, test_images, trainer)


def _images(
    request: FitRequest, capture: Capture, split: Split, formation: ImageFormation, warn: Warn
) -> CaptureImages:
    fit, loss = request.settings.fit, request.settings.loss
    training = split == "train"
    return CaptureImages(
        capture,
        split,
        formation,
        target=fit.target,
        with_depth=training and (loss.depth_weight > 0 or _grows_at_depth(request.settings, capture, warn)),
        with_normals=training and loss.normal_weight > 0,
        budget_bytes=(fit.image_memory_mb << 20) if training else 0,
        device=request.place.device,
        device_bytes=request.place.views_bytes() if training else 0,
        warn=warn,
        decoded=request.ahead.pictures,
    )


def _grows_at_depth(settings: RunSettings, capture: Capture, warn: Warn) -> bool:
    """Whether new splats are put at the views' own depth; pictures without one have the splats' in its place."""
    if settings.fit.strategy != "error":
        return False
    has_depth = reads_linear(capture, settings.fit.target) and "depth" in capture.info.passes
    if not has_depth:
        warn("The views have no depth: new splats come at the depth that is drawn so far.")
    return has_depth


def _trainer(
    request: FitRequest,
    capture: Capture,
    images: CaptureImages,
    formation: ImageFormation,
    checkpoint: dict[str, Any] | None,
    warn: Warn,
) -> Trainer:
    settings, place = request.settings, request.place
    if checkpoint is None:
        start = _start(request, capture, warn)
        state, extent = SplatState.from_splats(start.splats), start.extent
        strategy = strategy_of(settings.fit.strategy, is_dense=start.is_dense)
    else:
        state = SplatState.from_state_dict(checkpoint["trainer"]["splats"])
        extent = float(checkpoint["trainer"]["extent"])
        strategy = checkpoint["strategy"] if settings.fit.strategy == "auto" else settings.fit.strategy
        if checkpoint["capture"] != str(capture.root.resolve()):
            warn(f"The checkpoint was made with another capture: {checkpoint['capture']}.")
    space = loss_space_of(capture.info, images.views, settings.loss)
    trainer = Trainer(
        replace(
            settings,
            fit=replace(settings.fit, strategy=strategy),
            loss=replace(settings.loss, loss_space=space),
        ),
        images,
        state.to(place.device),
        extent=extent,
        warn=warn,
        backend=place.backend,
        formation=formation,
    )
    if checkpoint is not None:
        trainer.load_state_dict(checkpoint["trainer"])
    return trainer


def _start(request: FitRequest, capture: Capture, warn: Warn) -> Start:
    """The first splats: those that were placed ahead, else placed now."""
    for message in request.ahead.warnings:
        warn(message)
    rng = np.random.default_rng(request.settings.fit.seed)
    return request.ahead.start or start_splats(capture, request.settings, rng, warn)
