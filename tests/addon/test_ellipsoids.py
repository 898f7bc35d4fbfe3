"""What Cycles draws of imported splats, natively or as ellipsoids, against the image formation itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bpy
import numpy as np
import pytest

from addon.scene import point_cloud, splat_object, transforms
from splat_engine.formats.conventions import SH_C0, linear_from_srgb
from splat_engine.formats.exr import read_exr
from splat_engine.formats.splats import Splats

WIDTH, HEIGHT, SPAN = 96, 48, 4.8


def three_splats() -> Splats:
    """Red lying, green standing (turned about y), blue oblique and weak; none hides another from the front."""
    eighth = np.pi / 8
    return Splats(
        means=[[0, 0, 0], [1.4, 0.3, 0.1], [-1.4, -0.3, -0.1]],
        log_scales=np.log([[0.3, 0.1, 0.05], [0.3, 0.05, 0.1], [0.25, 0.1, 0.1]]),
        quats_wxyz=[[1, 0, 0, 0], [1, 0, 1, 0], [np.cos(eighth), 0, np.sin(eighth), 0]],
        opacity_logits=np.log(np.array([0.98, 0.8, 0.4]) / (1 - np.array([0.98, 0.8, 0.4]))),
        sh=np.array([[[1.2, -1, -1.5]], [[-1.0, 1.5, -2.5]], [[-0.5, 0.2, 4.0]]]),
    )


def expected(splats: Splats) -> np.ndarray:
    """Premultiplied linear RGBA [H, W, 4] seen along +y by an orthographic camera: o exp(-b^2 / 2) for each splat.

    b is the least Mahalanobis distance between a splat's centre and the pixel's ray (Cycles: the ray's point of
    greatest density).
    """
    x = ((np.arange(WIDTH) + 0.5) / WIDTH - 0.5) * SPAN
    z = (0.5 - (np.arange(HEIGHT) + 0.5) / HEIGHT) * SPAN * HEIGHT / WIDTH
    origins = np.stack(np.broadcast_arrays(x[None, :], -5.0, z[:, None]), axis=2)
    image = np.zeros((HEIGHT, WIDTH, 4))
    rotations = transforms.rotations_of(splats.quats_wxyz)
    for n in np.argsort(-splats.means[:, 1]):
        whiten = rotations[n].T / np.exp(splats.log_scales[n].astype(float))[:, None]
        start, ray = (origins - splats.means[n]) @ whiten.T, whiten @ [0.0, 1.0, 0.0]
        nearest = start - (start @ ray)[..., None] / (ray @ ray) * ray
        alpha = splats.opacities()[n] * np.exp(-0.5 * (nearest**2).sum(2))
        colour = linear_from_srgb(0.5 + SH_C0 * splats.sh[n, 0].astype(float))
        image *= 1 - alpha[..., None]
        image += alpha[..., None] * np.append(colour, 1.0)
    return image


def render(path: Path, samples: int) -> np.ndarray:
    """Returns premultiplied linear RGBA [H, W, 4] as Cycles draws the scene along +y."""
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    camera.data.type, camera.data.ortho_scale = "ORTHO", SPAN
    camera.location, camera.rotation_euler = (0, -5, 0), (np.pi / 2, 0, 0)
    current: Any = bpy.context.scene
    current.collection.objects.link(camera)
    current.camera = camera
    current.render.engine = "CYCLES"
    current.cycles.samples, current.cycles.use_adaptive_sampling = samples, False
    current.cycles.pixel_filter_type = "BOX"
    current.render.film_transparent = True
    current.render.resolution_x, current.render.resolution_y = WIDTH, HEIGHT
    image_settings = current.render.image_settings
    image_settings.file_format, image_settings.color_depth = "OPEN_EXR", "32"
    image_settings.color_mode, image_settings.exr_codec = "RGBA", "ZIP"
    current.render.filepath = str(path)
    bpy.ops.render.render(write_still=True)
    planes = {name.split(".")[-1]: plane for name, plane in read_exr(path).items()}
    return np.stack([planes[letter] for letter in "RGBA"], axis=2)


@pytest.mark.parametrize("missing", ["", "splats", "splats and resize"])
def test_drawn_in_place_and_in_colour(missing, tmp_path, monkeypatch):
    """Three ellipsoids stand where they should, in their colours, with a Gaussian's alpha.

    Also where this Blender is made to look like an older one, without splats (5.1, 5.2) and resize (4.5, 5.0).

    Tolerance: native splats are a stochastic alpha test, whose noise at 128 samples is 0.008 (RMS over the image);
    the ellipsoids end at three standard deviations, where alpha has fallen to 1.1 %.
    """
    if "splats" in missing:
        monkeypatch.setattr(point_cloud, "has_native_splats", lambda: False)
    if "resize" in missing:
        monkeypatch.setattr(point_cloud, "can_resize", lambda: False)
    splats = three_splats()
    splat_object.add_splats(splats, bpy.context.scene)
    found, wanted = render(tmp_path / "splats.exr", samples=128), expected(splats)
    np.savez(tmp_path / "splats.npz", found=found, wanted=wanted)  # to look at, when this fails
    assert wanted[..., 3].max() > 0.8 and (wanted[..., 3] > 0.1).mean() > 0.03
    error = np.abs(found - wanted)
    assert error[..., 3].mean() < 0.006 and np.sqrt((error**2).mean()) < 0.012
    for shift, axis in ((1, 0), (-1, 0), (1, 1), (-1, 1)):
        elsewhere = np.sqrt(((found - np.roll(wanted, shift, axis)) ** 2).mean())
        assert elsewhere > 2 * np.sqrt((error**2).mean()), "as near to one pixel beside as to its place"
