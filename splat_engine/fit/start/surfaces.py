"""What the training views say of the scene's surfaces: the pixels of their colour, depth and normal passes.

The depth pass gives the first surface along a pixel's ray: that of a glass, not what is seen through it, and nothing
of a volume. What no view sees directly gets no splat at the start; a strategy has to grow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from splat_engine.fit.decoding import DEPTH_NONE, read_picture, truth_of
from splat_engine.fit.exr import read_layers
from splat_engine.formats.cameras import Camera
from splat_engine.formats.capture import Capture
from splat_engine.formats.conventions import Float, linear_from_srgb, srgb_from_linear, unit_vectors
from splat_engine.formats.settings import Target

Doubles = NDArray[np.float64]

ALPHA_LEAST = 0.5
"""A pixel below shows mostly background; its surface is not sampled."""
NORMAL_DETAIL = 0.3
"""Weight of the gradient of the normals beside that of the encoded colours."""
JUMP_SHARE = 0.01
"""Steps of the inverse depth from pixel to pixel smaller than this share are no edge."""


@dataclass(frozen=True)
class SurfaceSamples:
    """M looks at surfaces: pixels of one view or more.

    Attributes:
        positions: [M, 3] world, scene units.
        colors: [M, 3] scene-linear, alpha divided out.
        normals: [M, 3] unit, or zero where the view has none; world.
        detail: [M] how much the view changes from pixel to pixel there: gradients of encoded colours and of normals.
    """

    positions: Doubles
    colors: Doubles
    normals: Doubles
    detail: Doubles

    def __len__(self) -> int:
        """Returns M."""
        return len(self.positions)

    def select(self, rows: NDArray[np.intp]) -> SurfaceSamples:
        """Returns the samples of some rows."""
        return SurfaceSamples(self.positions[rows], self.colors[rows], self.normals[rows], self.detail[rows])


def shows_surfaces(capture: Capture) -> bool:
    """Tells whether every training view comes with a depth pass."""
    views = capture.of_split("train")
    return "depth" in capture.info.passes and all(view.exr for view in views)


def read_surfaces(capture: Capture, most: int, target: Target, rng: np.random.Generator) -> SurfaceSamples:
    """Reads at most about ``most`` pixels that show a surface, as many from each training view, chosen at random.

    Args:
        capture: One that ``shows_surfaces``.
        most: Bounds the memory; 0 gives no samples.
        target: Which colours the fit is to reach: those of the EXR files or of the pictures.
        rng: Chooses.

    Raises:
        UserError: A file is missing or damaged, or lacks a pass that the capture promises.
    """
    views = capture.of_split("train")
    share = -(-most // len(views))
    names = ("Combined", "Depth", *(("Normal",) if "normal" in capture.info.passes else ()))
    gathered = []
    for view in views:
        assert view.exr is not None
        size = (view.camera.width, view.camera.height)
        layers = read_layers(capture.root / view.exr, names, size)
        truth = truth_of(view, capture, target)
        combined = layers["Combined"] if truth.image is None else _picture(capture.root / truth.image)
        samples = view_samples(view.camera, combined, layers["Depth"][..., 0], layers.get("Normal"))
        gathered.append(chosen(samples, share, rng))
    return joined(gathered)


def _picture(path: Path) -> Doubles:
    """[H, W, 4] premultiplied linear light of a display picture."""
    straight, alpha = read_picture(path)
    linear = linear_from_srgb(straight.astype(np.float64)) * alpha[..., None]
    return np.concatenate((linear, alpha[..., None].astype(np.float64)), axis=-1)


def view_samples(
    camera: Camera, combined: Float, depth: Float, normals: Float | None = None
) -> SurfaceSamples:
    """Returns the pixels of a view that show a surface.

    Left out are pixels of mostly background, those that are not finite, and those whose depth mixes two surfaces.

    Args:
        camera: The view's.
        combined: [H, W, 4] premultiplied linear light and alpha.
        depth: [H, W] planar, scene units; 1e10 or 0 where there is no surface.
        normals: [H, W, 3] world, of any length, or None.
    """
    there = (depth > 0) & (depth < DEPTH_NONE)
    surface: Doubles = np.where(there, depth.astype(np.float64), np.inf)
    good = there & (combined[..., 3] >= ALPHA_LEAST) & np.isfinite(combined).all(axis=-1)
    good &= ~between_surfaces(surface, camera)
    rows, columns = np.nonzero(good)
    pixels = combined[rows, columns].astype(np.float64)
    known = (
        np.zeros((len(rows), 3))
        if normals is None
        else unit_vectors(normals[rows, columns].astype(np.float64))
    )
    return SurfaceSamples(
        positions=camera.unproject(np.stack((columns, rows), axis=1) + 0.5, surface[rows, columns]),
        colors=np.maximum(pixels[:, :3] / pixels[:, 3:], 0.0),
        normals=known,
        detail=np.nan_to_num(_detail(combined, normals)[rows, columns], posinf=0.0),
    )


def _detail(combined: Float, normals: Float | None) -> Doubles:
    """[H, W] how much a view changes at each pixel; not finite where the view is not."""
    with np.errstate(invalid="ignore"):
        detail = _gradient(srgb_from_linear(combined[..., :3]))
        return detail if normals is None else detail + NORMAL_DETAIL * _gradient(normals)


def _gradient(values: Float) -> Doubles:
    """[H, W] length of the gradient of [H, W, C] values, a pixel."""
    squared = np.zeros(values.shape[:2])
    for across in (values, values.swapaxes(0, 1)):
        padded = np.pad(across, ((1, 1), (0, 0), (0, 0)), mode="edge")
        part = np.square((padded[2:] - padded[:-2]) / 2).sum(axis=-1)
        squared += part if across is values else part.T
    result: Doubles = np.sqrt(squared)
    return result


def between_surfaces(depth: Doubles, camera: Camera) -> NDArray[np.bool_]:
    """[H, W] pixels that lie in the middle of a jump, on the continuation of neither side: flying points.

    Blender's depth is not antialiased and has none; others' have, and so have resized ones. A plane's inverse depth is
    linear in the picture (its depth, for an orthographic camera), so that a slope is told from a jump; and what is
    nearer than both its neighbours, such as a hair, stays.

    Args:
        depth: [H, W] planar, infinite where there is no surface.
        camera: The view's.
    """
    if camera.model == "perspective":
        value = 1.0 / depth
    else:
        finite = np.isfinite(depth)
        value = -np.where(finite, depth, 2 * np.max(depth, where=finite, initial=0.0))
    return _between_rows(value) | _between_rows(value.T).T


def _between_rows(value: Doubles) -> NDArray[np.bool_]:
    """The same along the first axis alone; rows at the border are never in between."""
    found = np.zeros(value.shape, dtype=bool)
    if len(value) < 3:
        return found
    padded = np.pad(value, ((1, 1), (0, 0)), mode="edge")
    step = np.diff(padded, axis=0)  # step[i] leads to row i
    before, after = step[1:-2], step[2:-1]
    smaller = np.minimum(np.abs(before), np.abs(after))
    jump = (before * after > 0) & (smaller > JUMP_SHARE * np.abs(value[1:-1]))
    continues = (np.abs(before - step[:-3]) < 0.5 * smaller) | (np.abs(after - step[3:]) < 0.5 * smaller)
    found[1:-1] = jump & ~continues
    return found


def chosen(samples: SurfaceSamples, most: int, rng: np.random.Generator) -> SurfaceSamples:
    """Returns at most ``most`` of the samples, chosen evenly at random, in their old order."""
    if len(samples) <= most:
        return samples
    rows = np.sort(rng.choice(len(samples), most, replace=False, shuffle=False))
    return samples.select(rows)


def joined(parts: list[SurfaceSamples]) -> SurfaceSamples:
    """Returns all samples of one or more parts."""
    names = ("positions", "colors", "normals", "detail")
    return SurfaceSamples(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
