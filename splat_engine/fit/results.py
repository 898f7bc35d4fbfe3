"""What a run leaves in its folder: checkpoint, snapshot, preview, splats and metrics.

Pictures and snapshots that cannot be written are a warning; the fit goes on. A checkpoint or a result that cannot be
written is an error.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

from splat_engine.fit.checkpoint import save_checkpoint
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.journal import Journal
from splat_engine.fit.metrics import ViewScore, mean_scores, score_views
from splat_engine.fit.objects import has_object_indices, object_indices
from splat_engine.fit.pictures import draw_view, rgba8, write_png
from splat_engine.fit.prepare import FitRequest, Prepared
from splat_engine.formats import events
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Split
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.settings import to_dict
from splat_engine.formats.splat_ply import write_splat_ply
from splat_engine.formats.splats import Splats


class Results:
    """Writes a run's files, and tells of each.

    Args:
        request: What is fitted.
        prepared: The run's views and trainer.
        run: The folder.
        journal: Where events go.

    Attributes:
        preview_camera: Of the preview; None: the first held-out view's.
    """

    def __init__(self, request: FitRequest, prepared: Prepared, run: RunDirectory, journal: Journal) -> None:
        self.preview_camera: Camera | None = None
        self._request = request
        self._prepared = prepared
        self._trainer = prepared.trainer
        self._run = run
        self._journal = journal

    def write_checkpoint(self) -> None:
        """Writes checkpoint.pt.

        Raises:
            UserError: It cannot be written.
        """
        values = {
            "trainer": self._trainer.state_dict(),
            "strategy": self._trainer.settings.fit.strategy,
            "seconds": self._journal.seconds(),
            "capture": self._prepared.root,
            "settings": to_dict(self._request.settings),
        }
        save_checkpoint(self._run.checkpoint, values)
        self._journal.written("checkpoint", self._run.checkpoint, self._trainer.step)

    def write_snapshot(self) -> None:
        """Writes snapshot.ply and preview.png; failing is a warning."""
        self.write_splats()
        self.write_preview()

    def write_splats(self) -> None:
        """Writes snapshot.ply; failing is a warning."""
        since_s = time.monotonic()
        try:
            write_splat_ply(self._run.snapshot, self._splats())
        except UserError as error:
            self._journal.warn(str(error))
        else:
            self._journal.written("snapshot", self._run.snapshot, self._trainer.step, since_s)

    def write_preview(self) -> None:
        """Writes preview.png; failing is a warning.

        The splats are widened by Blender's pixel filter: drawing through it would take nine times as long, and the fit waits.
        """
        since_s = time.monotonic()
        views, formation = (
            (*self._prepared.test_images.views, *self._prepared.images.views),
            self._prepared.formation,
        )
        camera = self.preview_camera or views[0].camera
        shown = ImageFormation(formation.name)
        drawn = draw_view(self._trainer.state.params, camera, shown, backend=self._request.place.backend)
        try:
            write_png(self._run.preview, rgba8(drawn, formation))
        except UserError as error:
            self._journal.warn(str(error))
        else:
            self._journal.written("preview", self._run.preview, self._trainer.step, since_s)

    def write_result(self) -> dict[str, Any]:
        """Writes splats.ply, a last preview and metrics.json; returns the metrics.

        Raises:
            UserError: The splats or the metrics cannot be written.
        """
        seconds, trainer = self._journal.seconds(), self._trainer
        splats, seconds_of_objects = self._with_objects(self._splats())
        write_splat_ply(self._run.splats, splats)
        self._journal.written("splats", self._run.splats, trainer.step)
        self.write_preview()
        scores = self._evaluate()
        metrics: dict[str, Any] = {
            **mean_scores(scores),
            "engine.split": "test" if len(self._prepared.test_images) else "train",
            "engine.views": len(scores),
            "splats": len(trainer.state),
            "steps": trainer.step,
            "seed": self._request.settings.fit.seed,
            "formation": self._prepared.formation.name,
            "seconds.fit": seconds,
            **seconds_of_objects,
        }
        self._run.write_metrics(metrics)
        self._journal.written("metrics", self._run.metrics, trainer.step)
        return metrics

    def _splats(self) -> Splats:
        metadata = {
            "formation": self._prepared.formation.name,
            "version": self._request.version,
            "run": str(self._run.root.resolve()),
            "capture": self._prepared.root,
            "steps": str(self._trainer.step),
            "seed": str(self._request.settings.fit.seed),
        }
        return self._trainer.state.to_splats(metadata)

    def _with_objects(self, splats: Splats) -> tuple[Splats, dict[str, float]]:
        """Tells which object each splat shows, if the capture knows; failing is a warning. Returns the seconds it took."""
        capture = self._prepared.capture
        if not has_object_indices(capture):
            return splats, {}
        since_s = time.monotonic()
        try:
            indices = object_indices(splats, capture, torch.get_num_threads())
        except UserError as error:
            self._journal.warn(f"Which object each splat shows is not known: {error}")
            return splats, {}
        splats = replace(splats, object_indices=indices, object_names=capture.info.object_names)
        return splats, {"seconds.object_index": time.monotonic() - since_s}

    def _evaluate(self) -> list[ViewScore]:
        prepared, trainer = self._prepared, self._trainer
        split: Split = "test" if len(prepared.test_images) else "train"
        images = prepared.test_images if split == "test" else prepared.images
        backend, formation = self._request.place.backend, prepared.formation
        filtered = formation.is_filtered_anew(split)
        scores = list(score_views(trainer.state.params, images, formation, backend, through_filter=filtered))
        means = mean_scores(scores)
        self._journal.emit(
            events.Evaluated(
                step=trainer.step,
                psnr=means["engine.psnr"],
                ssim=means["engine.ssim"],
                views=len(scores),
            )
        )
        return scores
