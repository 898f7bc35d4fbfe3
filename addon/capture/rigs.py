"""Cameras around a target: where it is, how far to stand, and which views to hold out. Pure numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from splat_engine.formats.cameras import Camera
from splat_engine.formats.conventions import Float
from splat_engine.formats.errors import UserError

GOLDEN_ANGLE_RAD = math.pi * (3 - math.sqrt(5))
DOME_LOWEST_DEG = 4.0
"""A dome's lowest cameras stand a little above the target's middle."""
BACKDROP_RATIO = 2.5
"""A flat thing this many times as large as all the rest together is ground, wall or sky, not target."""
ENCLOSURE_RATIO = 4.0
"""A thing around all the rest that is this many times as large is a backdrop or a sky dome."""
FLATNESS = 0.05
"""Thickness over width below which a thing is flat."""
STRAY_RATIO = 8.0
"""Something this many radii of the middle half of all bodies away is a stray, not target ..."""
STRAY_SHARE = 0.05
"""... if all such bodies together are no more than this share of the sizes of all."""
_SENSOR_MM = 36.0
_LATTICE_TURNS, _TURNED_UP_TO = 16, 2000
"""How many turns of the held-out lattice are tried, and up to how many views: beyond, any turn is good."""


@dataclass(frozen=True)
class Sphere:
    """A ball around something; scene units."""

    center: Float
    radius: float


@dataclass(frozen=True)
class Framing:
    """What a rig frames.

    Attributes:
        sphere: Ball around the target.
        bounds_min, bounds_max: [3] box around the target.
        ground_z: Height of a floor under the target that hides it from below, or None.
        backdrops: Names of what was left out as ground, sky or stray.
    """

    sphere: Sphere
    bounds_min: Float
    bounds_max: Float
    ground_z: float | None = None
    backdrops: tuple[str, ...] = ()


def enclosing_sphere(points: Float) -> Sphere:
    """Returns a ball around points [N, 3], at most about 1 % larger than the smallest.

    Source: Badoiu and Clarkson 2003, Smaller core-sets for balls, section 3.
    """
    points = np.asarray(points, dtype=np.float64)
    outer = _outer_points(points)
    center = (outer.min(axis=0) + outer.max(axis=0)) / 2
    for step in range(1, 301):
        farthest = outer[np.argmax(((outer - center) ** 2).sum(axis=1))]
        center = center + (farthest - center) / (step + 1)
    return Sphere(center, float(np.sqrt(((points - center) ** 2).sum(axis=1).max())))


def _outer_points(points: Float, count: int = 64, at_once: int = 8) -> Float:
    """Returns those points that reach farthest along ``count`` directions: they span nearly the same ball."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    centered = (points - middle).astype(np.float32)
    squares = (centered**2).sum(axis=1)
    centered = centered[squares >= 0.3 * squares.max()]
    directions = _cap(count, -1.0, 1.0, 0.0).astype(np.float32).T
    farthest = [
        np.argmax(centered @ directions[:, at : at + at_once], axis=0) for at in range(0, count, at_once)
    ]
    outer: Float = centered[np.unique(np.concatenate(farthest))].astype(np.float64) + middle
    return outer


def frame_target(points: NDArray[np.float32], names: Sequence[str], *, chosen: bool) -> Framing:
    """Finds what to frame among the bodies of a scene.

    Args:
        points: [N, K, 3] points of each body.
        names: N names.
        chosen: Whether a person chose these bodies: then all of them are the target.

    Returns:
        Ball and box around the target. Unless chosen, ground planes, sky domes, backdrops and strays far away do not
        count (they are rendered all the same).

    Raises:
        UserError: There is nothing.
    """
    if len(points) == 0:
        raise UserError(
            "There is nothing to look at: the target has no geometry that renders.",
            "Choose an object or collection with geometry, and check that it is not hidden from renders.",
        )
    keep = np.ones(len(points), bool)
    if not chosen:
        keep = _without_backdrops(points)
        keep &= _without_strays(points, keep)
    target = points[keep].reshape(-1, 3).astype(np.float64)
    sphere = enclosing_sphere(target)
    if sphere.radius <= 0:
        raise UserError("The target has no extent: all of it lies in one point.", "Choose another target.")
    left_out = tuple(sorted({names[int(i)] for i in np.flatnonzero(~keep)}))
    ground = _ground_z(points, keep, sphere, target)
    return Framing(sphere, target.min(axis=0), target.max(axis=0), ground, left_out)


def _sizes(points: NDArray[np.float32]) -> tuple[Float, Float]:
    """Returns half diagonal [N] and thickness over width [N] of each body's box."""
    extent = np.ptp(points, axis=1).astype(np.float64)
    ordered = np.sort(extent, axis=1)
    flat = np.minimum(ordered[:, 0], _thickness(points)) / np.maximum(ordered[:, 1], 1e-30)
    return np.linalg.norm(extent, axis=1) / 2, flat


def _thickness(points: NDArray[np.float32]) -> Float:
    """Least extent of each body along its own axes: a slanted plane is flat too."""
    centered = points - points.mean(axis=1, keepdims=True)
    covariance = np.einsum("nki,nkj->nij", centered, centered, dtype=np.float64) / points.shape[1]
    normal = np.linalg.eigh(covariance)[1][:, :, 0]
    return np.ptp(np.einsum("nki,ni->nk", centered, normal), axis=1)


def _without_backdrops(points: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Takes away the largest bodies as long as one is out of all proportion to the rest."""
    half, flat = _sizes(points)
    order = np.argsort(-half)
    low, high = points.min(axis=1), points.max(axis=1)
    keep = np.ones(len(points), bool)
    for dropped in range(1, min(len(order), 17)):
        rest = order[dropped:]
        box_min, box_max = low[rest].min(axis=0), high[rest].max(axis=0)
        rest_half = float(np.linalg.norm(box_max - box_min)) / 2
        last = order[dropped - 1]
        around = bool((low[last] <= box_min).all() and (high[last] >= box_max).all())
        limit = ENCLOSURE_RATIO if around and flat[last] > FLATNESS else BACKDROP_RATIO
        if rest_half > 0 and (flat[last] <= FLATNESS or around) and half[last] > limit * rest_half:
            keep[order[:dropped]] = False
    return keep


def _without_strays(points: NDArray[np.float32], keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Takes away bodies that lie far from where most of the geometry is."""
    half, _ = _sizes(points)
    centers = points.mean(axis=1, dtype=np.float64)
    weights = np.where(keep, half, 0)
    middle = np.array([_weighted_median(centers[:, axis], weights) for axis in range(3)])
    distance = np.linalg.norm(centers - middle, axis=1) + half
    spread = _weighted_median(distance, weights)
    stray = keep & (distance > STRAY_RATIO * spread)
    if weights[stray].sum() > STRAY_SHARE * weights.sum() or (half[stray] > spread / 2).any():
        return np.ones(len(points), bool)  # too much to be there by accident
    return ~stray


def _weighted_median(values: Float, weights: Float) -> float:
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(cumulative, cumulative[-1] / 2)]])


def _ground_z(
    points: NDArray[np.float32], keep: NDArray[np.bool_], sphere: Sphere, target: Float
) -> float | None:
    """Returns the height of a level, flat body under the target that is not part of it: from below it hides all."""
    low, high = points.min(axis=1).astype(np.float64), points.max(axis=1).astype(np.float64)
    height = float(np.ptp(target[:, 2]))
    width = np.minimum(np.ptp(target[:, 0]), np.ptp(target[:, 1]))
    level = high[:, 2] - low[:, 2] <= max(FLATNESS * width, 1e-6)
    center = (target.min(axis=0) + target.max(axis=0)) / 2
    reach = 0.35 * sphere.radius
    wide = ((low[:, :2] <= center[:2] - reach) & (high[:, :2] >= center[:2] + reach)).all(axis=1)
    beneath = high[:, 2] <= target[:, 2].min() + 0.2 * height
    near = high[:, 2] >= sphere.center[2] - 3 * sphere.radius
    floors = level & wide & beneath & near & ~keep
    if not floors.any():
        return None
    return float(high[floors, 2].max())


def _cap(count: int, low: float, high: float, turn_rad: float) -> Float:
    """Returns [count, 3] unit vectors, evenly over the part of the sphere with ``low`` <= z <= ``high``.

    Source: the Fibonacci lattice; Gonzalez 2010, Measurement of areas on a sphere using Fibonacci lattices.
    """
    z = high - (high - low) * (np.arange(count) + 0.5) / count
    angle = np.arange(count) * GOLDEN_ANGLE_RAD + turn_rad
    across = np.sqrt(np.maximum(0.0, 1 - z * z))
    return np.stack([across * np.cos(angle), across * np.sin(angle), z], axis=1)


def rig_directions(
    rig: str, count: int, *, seed: int = 0, elevation_deg: float = 0.0, lowest_z: float = -1.0
) -> Float:
    """Returns [count, 3] unit vectors from the target to the cameras.

    Args:
        rig: "sphere", "dome" (a little above the horizon and up) or "ring".
        count: Number of cameras.
        seed: Turns the rig about the vertical; 0 does not.
        elevation_deg: A ring's height over the target's middle.
        lowest_z: No camera of a sphere or dome lies lower than this on the unit sphere.
    """
    turn_rad = 0.0 if seed == 0 else float(np.random.default_rng(seed).uniform(0, 2 * math.pi))
    if rig == "ring":
        angle = np.arange(count) * (2 * math.pi / count) + turn_rad
        elevation = math.radians(elevation_deg)
        flat = np.stack([np.cos(angle), np.sin(angle)], axis=1) * math.cos(elevation)
        return np.c_[flat, np.full(count, math.sin(elevation))]
    low = math.sin(math.radians(DOME_LOWEST_DEG)) if rig == "dome" else -1.0
    return _cap(count, min(max(low, lowest_z), 0.9), 1.0, turn_rad)


def fitting_distance(radius: float, focal_px: float, size_px: int, margin: float) -> float:
    """Returns how far from a ball a camera must stand to have it in its view with a margin, scene units."""
    half_angle_rad = math.atan(size_px / 2 / focal_px)
    return radius * margin / math.sin(half_angle_rad)


def look_at(position: Float, target: Float) -> Float:
    """Returns [4, 4] world_from_camera with OpenCV axes: at ``position``, looking at ``target``, Z up."""
    forward = np.asarray(target, dtype=np.float64) - position
    forward /= np.linalg.norm(forward)
    up = np.array([0.0, 0.0, 1.0]) if abs(forward[2]) < 1 - 1e-9 else np.array([0.0, 1.0, 0.0])
    right = np.cross(forward, up)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
    pose[:3, 3] = position
    return pose


def rig_cameras(
    framing: Framing,
    rig: str,
    count: int,
    *,
    size_px: int,
    lens_mm: float,
    distance: float = 0.0,
    margin: float = 1.1,
    elevation_deg: float = 0.0,
    seed: int = 0,
) -> list[Camera]:
    """Returns square perspective views around a target.

    Args:
        framing: What is framed. With a ground, cameras of a sphere or dome stay above it.
        rig: "sphere", "dome" or "ring".
        count: Number of views.
        size_px: Side of a view.
        lens_mm: Focal length on a 36 mm sensor.
        distance: From the target's centre, scene units; 0: so that the target fits.
        margin: Room around the target.
        elevation_deg: A ring's height.
        seed: Turns the rig.

    Raises:
        UserError: No view is asked for.
    """
    if count < 1:
        raise UserError("A rig needs at least one view.", "Raise the number of views.")
    focal_px = lens_mm / _SENSOR_MM * size_px
    sphere = framing.sphere
    distance = distance or fitting_distance(sphere.radius, focal_px, size_px, margin)
    lowest_z = -1.0
    if framing.ground_z is not None:
        above = framing.ground_z - float(sphere.center[2]) + 0.05 * sphere.radius
        lowest_z = min(above / distance, 0.9)
    directions = rig_directions(rig, count, seed=seed, elevation_deg=elevation_deg, lowest_z=lowest_z)
    digits = len(str(count))
    return [
        square_camera(
            size_px,
            focal_px,
            look_at(sphere.center + distance * direction, sphere.center),
            near=distance * 0.01,
            far=distance + 1000 * sphere.radius,
            name=f"{rig} {number + 1:0{digits}d}",
        )
        for number, direction in enumerate(directions)
    ]


def square_camera(
    size_px: int, focal_px: float, world_from_camera: Float, *, near: float, far: float, name: str
) -> Camera:
    """Returns a camera of a rig: a square picture with the principal point in its middle.

    Args:
        size_px: Width and height.
        focal_px: Focal length.
        world_from_camera: [4, 4], OpenCV axes.
        near, far: Clip distances, scene units.
        name: What the view is called.
    """
    return Camera(
        width=size_px,
        height=size_px,
        fx=focal_px,
        fy=focal_px,
        cx=size_px / 2,
        cy=size_px / 2,
        world_from_camera=world_from_camera,
        near=near,
        far=far,
        name=name,
    )


def spread_held_out(directions: Float, every: int) -> NDArray[np.intp]:
    """Orders views so that every ``every``-th, from the middle of each group, is one of a well spread choice.

    The held-out views are the ones closest to an even lattice of their own over the same region, so that they lie
    among the training views rather than at their edge, and on all sides.

    Args:
        directions: [N, 3] unit vectors from the target to the cameras.
        every: As in ``formats.capture.mark_held_out``; 0 holds none out.

    Returns:
        [N] an order of the views.
    """
    count = len(directions)
    places = np.arange(count) % every == every // 2 if every > 0 else np.zeros(count, bool)
    wanted = int(places.sum())
    order = np.arange(count)
    if wanted == 0 or wanted == count:
        return order
    turns = np.linspace(0, 2, _LATTICE_TURNS) if count <= _TURNED_UP_TO else [0.0]
    choices = [_nearest_to_lattice(directions, wanted, float(turn)) for turn in turns]
    chosen = (
        choices[0] if len(choices) == 1 else max(choices, key=lambda c: _least_angle_cosine(directions[c]))
    )
    order[places] = chosen
    order[~places] = np.setdiff1d(np.arange(count), chosen)
    return order


def _nearest_to_lattice(directions: Float, wanted: int, turn_rad: float) -> NDArray[np.intp]:
    """Returns the numbers of ``wanted`` views, each the nearest free one to a point of an even lattice."""
    z = np.sort(directions[:, 2])
    inset = (z[-1] - z[0]) / (4 * wanted)
    lattice = _cap(wanted, float(z[0]) + inset, float(z[-1]) - inset, turn_rad)
    free = np.ones(len(directions), bool)
    chosen = np.empty(wanted, np.intp)
    for number, direction in enumerate(lattice):
        chosen[number] = np.argmax(np.where(free, directions @ direction, -np.inf))
        free[chosen[number]] = False
    return chosen


def _least_angle_cosine(directions: Float) -> float:
    """Returns minus the cosine of the least angle between any two: larger is better spread."""
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, -1)
    return -float(cosines.max())
