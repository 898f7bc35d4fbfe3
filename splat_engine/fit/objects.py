"""Which object of the captured scene each splat shows: the views' object index and depth passes vote.

A view has a say about a splat where the splat's centre lies on the surface that the view sees there: nearer to the
depth pass than the splat is large. A splat without any vote takes the object of the nearest one with votes, if its own
size reaches there. What lies far behind a surface, or floats in front of everything, stays unknown. The first surface
counts, as in the passes: that of a glass, not what is seen through it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from splat_engine.fit.decoding import DEPTH_NONE
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture, View
from splat_engine.formats.exr import read_passes
from splat_engine.formats.splats import Int32, Splats

Passes = dict[str, NDArray[np.float32]]
Votes = tuple[NDArray[np.intp], Int32, NDArray[np.float64]]

TOLERANCE_SIGMAS = 2.0
"""A centre may lie so many standard deviations, of its splat's longest axis, off the surface."""
TOLERANCE_SHARE = 0.005
"""And this share of the distance, for splats smaller than what a pixel tells of depth."""
BALLOTS_MOST = 4_000_000
"""Votes are added up when so many have gathered: bounds memory (about 100 MB)."""


def has_object_indices(capture: Capture) -> bool:
    """Tells whether every training view says which object is seen at each pixel, and how far away."""
    info, views = capture.info, capture.of_split("train")
    passes = {"depth", "object_index"} <= set(info.passes)
    return passes and bool(info.object_names) and all(view.exr for view in views)


def object_indices(splats: Splats, capture: Capture, workers: int = 1) -> Int32:
    """Returns [N] int32: i shows entry i - 1 of the capture's ``object_names``, 0 is unknown. N = 0 gives none.

    Args:
        splats: In the capture's world.
        capture: One that ``has_object_indices``; its training views are asked.
        workers: Threads; the result is the same for any number.

    Raises:
        UserError: A view is missing or damaged.
    """
    tolerances = TOLERANCE_SIGMAS * splats.scales().max(axis=1, initial=0.0)
    good = np.flatnonzero(splats.finite() & np.isfinite(tolerances))
    means, tolerances = splats.means[good], tolerances[good]
    ballots = Ballots(len(good), len(capture.info.object_names))

    def votes(view: View) -> Votes:
        assert view.exr is not None
        passes = read_passes(capture.root / view.exr, ("depth", "object_index"))
        return view_votes(means, tolerances, view.camera, passes)

    with ThreadPoolExecutor(workers) as pool:
        for found in pool.map(votes, capture.of_split("train")):
            ballots.add(*found)
    indices = np.zeros(len(splats), np.int32)
    indices[good] = joined_to_neighbours(ballots.winners(), means, tolerances)
    return indices


def joined_to_neighbours(
    winners: Int32, means: NDArray[np.float32], tolerances: NDArray[np.float32]
) -> Int32:
    """Returns the objects [N], in which unknown splats have the nearest known one's if it is within their tolerance."""
    from scipy.spatial import cKDTree  # a third of a second: not at the top

    known, unknown = np.flatnonzero(winners > 0), np.flatnonzero(winners == 0)
    if not len(known) or not len(unknown):
        return winners
    distances, nearest = cKDTree(means[known]).query(means[unknown])
    near = distances <= tolerances[unknown]
    joined = winners.copy()
    joined[unknown[near]] = winners[known[nearest[near]]]
    return joined


def view_votes(
    means: NDArray[np.float32], tolerances: NDArray[np.float32], camera: Camera, passes: Passes
) -> Votes:
    """Returns what one view says: splats [M], objects [M] from 1, and weights [M] in 0 to 1.

    The weight falls from 1 on the surface to 0 at the tolerance.

    Args:
        means: [N, 3] centres.
        tolerances: [N] scene units.
        camera: The view's.
        passes: depth, planar, and object_index, [H, W] each; without both the view says nothing.
    """
    if not {"depth", "object_index"} <= passes.keys():
        return np.zeros(0, np.intp), np.zeros(0, np.int32), np.zeros(0)
    pixels, depths = camera.project(means)
    inside = (pixels >= 0) & (pixels < [camera.width, camera.height])
    seen = np.flatnonzero(inside.all(axis=1) & (depths > camera.near))
    columns, rows = pixels[seen].astype(np.intp).T
    surface = passes["depth"][rows, columns]
    objects = passes["object_index"][rows, columns].astype(np.int32)
    allowed = tolerances[seen] + TOLERANCE_SHARE * depths[seen]
    weights = 1.0 - np.abs(surface - depths[seen]) / allowed
    good = (weights > 0) & (surface < DEPTH_NONE) & (objects > 0)
    return seen[good], objects[good], weights[good]


class Ballots:
    """Weighted votes for objects, kept for the pairs of splat and object that have any.

    Args:
        splats: N.
        objects: Number of objects; indices above are invalid votes.
    """

    def __init__(self, splats: int, objects: int) -> None:
        self._splats, self._base = splats, objects + 1
        self._keys: list[NDArray[np.int64]] = []
        self._weights: list[NDArray[np.float64]] = []
        self._waiting = 0

    def add(self, splats: NDArray[np.intp], objects: Int32, weights: NDArray[np.float64]) -> None:
        """Takes in votes [M]."""
        valid = objects < self._base
        self._keys.append(splats[valid].astype(np.int64) * self._base + objects[valid])
        self._weights.append(weights[valid])
        self._waiting += int(valid.sum())
        if self._waiting > BALLOTS_MOST:
            self._count()
            self._waiting = 0

    def _count(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Adds up equal pairs; returns them and their sums."""
        keys, which = np.unique(np.concatenate([*self._keys, np.zeros(0, np.int64)]), return_inverse=True)
        weights = np.concatenate([*self._weights, np.zeros(0)])
        sums: NDArray[np.float64] = np.bincount(which, weights, len(keys)).astype(np.float64)
        self._keys, self._weights = [keys], [sums]
        return keys, sums

    def winners(self) -> Int32:
        """Returns [N] the object with most weight of each splat, 0 without any vote; the lower one where two are equal."""
        keys, sums = self._count()
        splats, objects = np.divmod(keys, self._base)
        order = np.lexsort((-objects, sums, splats))  # the last of a splat's pairs is its winner
        winners = np.zeros(self._splats, np.int32)
        winners[splats[order]] = objects[order]
        return winners
