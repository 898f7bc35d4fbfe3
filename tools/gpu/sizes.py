"""How much there is to do in a step of a bench input: pairs, buckets and pixels, counted where that is quick."""

from __future__ import annotations

import torch
from torch import Tensor

from splat_engine.fit.drawing import to_screen
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import SplatState
from splat_engine.fit.views import camera_tensors
from splat_engine.formats.conventions import Formation
from splat_engine.native.measure import raster_counts
from splat_engine.native.rasterize import RasterContext
from splat_engine.ops import RasterPass
from splat_engine.ops._cuda.rasterize import Saved
from splat_engine.ops._cuda.tiles import tile_lists
from tools.bench.inputs import BenchInput
from tools.gpu.costs import BUCKET, PATCHES, Sizes

TILE = 16
"""px a side, csrc/cuda/raster.h."""


def sizes_of(given: BenchInput, formation: Formation, device: torch.device, *, draws: bool) -> Sizes:
    """Counts one input.

    Args:
        given: The input.
        formation: The image formation.
        device: Where the backend "cuda" computes: a card, or the processor while it is emulated.
        draws: Also draw there, which tells the buckets that were entered. Emulated, that takes minutes for a large input:
            without it (or where a card's memory is short) all patches are taken to enter each bucket of the pairs that the
            processor's rasterizer visits.
    """
    camera = given.camera
    inputs, depths, _ = on_screen(given, formation)
    there = [value.to(device) for value in inputs]
    lists = tile_lists(there, depths.to(device), camera.width, camera.height)
    means2d, conics, opacities, features = inputs
    drawing = RasterPass(means2d, conics, opacities, features, depths, camera.width, camera.height)
    context = drawing._context
    assert isinstance(context, RasterContext)
    counts = raster_counts(context.handle)
    pairs = int(lists.pairs.shape[0])
    visited = pairs * counts.visited_pairs / max(1, counts.pairs)
    patch_buckets = visited / BUCKET * PATCHES
    saved = (
        RasterPass(
            there[0],
            there[1],
            there[2],
            there[3],
            depths.to(device),
            camera.width,
            camera.height,
            backend="cuda",
        )._context
        if draws
        else None
    )
    if isinstance(saved, Saved) and saved.checkpoints is not None:
        visited, patch_buckets = _entered(saved.lists.tile_starts, saved.checkpoints.patch_buckets)
    return Sizes(
        splats=len(depths),
        drawn=int((inputs[2] > 0).sum()),
        pairs=pairs,
        visited=visited,
        patch_buckets=patch_buckets,
        evaluated=counts.evaluated,
        pixels=camera.width * camera.height,
        tiles=int(lists.tile_starts.shape[0]) - 1,
    )


def on_screen(
    given: BenchInput, formation: Formation, *, own_order: bool = False
) -> tuple[list[Tensor], Tensor, Tensor | None]:
    """Returns means2d, conics, opacities and colours; the depths; with ``own_order`` their slopes; all on the processor."""
    viewmat, intrinsics = camera_tensors(given.camera)
    params = SplatState.from_splats(given.splats).params
    image_formation = ImageFormation(formation, own_order=own_order)
    with torch.no_grad():
        screen = to_screen(params, viewmat, intrinsics, given.camera, image_formation)
    projected = screen.projected
    inputs = [projected.means2d, projected.conics, projected.opacities, screen.colors]
    return inputs, projected.depths, projected.depth_slopes


def _entered(tile_starts: Tensor, patch_buckets: Tensor) -> tuple[float, float]:
    """(pairs of the buckets that any patch entered, buckets entered summed over patches)."""
    visited = torch.minimum(tile_starts.diff(), BUCKET * patch_buckets.amax(dim=1).long())
    return float(visited.sum()), float(patch_buckets.sum())
