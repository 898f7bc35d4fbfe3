"""Views come out of every kind of file as they went in, and bad files are named in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import OpenEXR
import pytest
import torch
from PIL import Image

from splat_engine.fit.data import CaptureImages
from splat_engine.fit.decoding import read_picture
from splat_engine.fit.exr import check_layers, read_layers, write_layers
from splat_engine.fit.formation import ImageFormation, decode_srgb, encode_srgb
from splat_engine.formats.capture import Capture, CaptureInfo, View, read_capture
from splat_engine.formats.errors import UserError
from tests.engine.tiny_capture import ring_cameras, write_tiny_capture, write_view

LINEAR, CLASSIC = ImageFormation("blender"), ImageFormation("classic")
W, H = 7, 5


def combined(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    alpha = rng.uniform(0, 1, (H, W, 1)).round(1)
    return np.concatenate((rng.uniform(0, 3, (H, W, 3)) * alpha, alpha), axis=-1).astype(np.float32)


def one_view(root: Path, exr: str | None = "a.exr", image: str | None = None, **info: object) -> Capture:
    camera = replace(ring_cameras(1, W, H)[0], name="the camera")
    return Capture(root, (View(camera, exr=exr, image=image),), CaptureInfo(**info))  # type: ignore[arg-type]


def write_parts(path: Path, parts: list[tuple[str, dict[str, np.ndarray]]]) -> None:
    made = [
        OpenEXR.Part({"type": OpenEXR.scanlineimage, "compression": OpenEXR.ZIP_COMPRESSION}, channels, name)
        for name, channels in parts
    ]
    with OpenEXR.File(made) as file:
        file.write(str(path))


@pytest.mark.parametrize("layer", ["ViewLayer", "View Layer.001", "Ebene.x"])
@pytest.mark.parametrize("many_parts", [False, True])
def test_layers_are_found_whatever_the_view_layer_is_called(
    tmp_path: Path, layer: str, many_parts: bool
) -> None:
    """Combined, Depth and Normal come back, from one part or a part a pass, under any view layer's name."""
    rgba, depth = combined(), np.full((H, W), 2.5, np.float32)
    normal = np.random.default_rng(1).normal(size=(H, W, 3)).astype(np.float32)
    parts = {
        f"{layer}.Combined": {f"{layer}.Combined.{c}": rgba[..., i].copy() for i, c in enumerate("RGBA")},
        f"{layer}.Depth": {f"{layer}.Depth.Z": depth},
        f"{layer}.Normal": {f"{layer}.Normal.{c}": normal[..., i].copy() for i, c in enumerate("XYZ")},
        f"{layer}.Noisy Image": {f"{layer}.Noisy Image.R": depth * 0},
    }
    if not many_parts:
        parts = {"": {name: plane for part in parts.values() for name, plane in part.items()}}
    write_parts(tmp_path / "a.exr", list(parts.items()))
    names = ("Combined", "Depth", "Normal")
    check_layers(tmp_path / "a.exr", names, (W, H))
    layers = read_layers(tmp_path / "a.exr", names, (W, H))
    assert np.array_equal(layers["Combined"], rgba)
    assert np.array_equal(layers["Depth"][..., 0], depth)
    assert np.array_equal(layers["Normal"], normal)


def test_plain_rgba_and_depth_v_are_understood(tmp_path: Path) -> None:
    """A plain EXR's R, G, B, A are Combined; a depth channel may be called V; the part alone may name the layer."""
    rgba = combined()
    plain = {c: rgba[..., i].copy() for i, c in enumerate("RGBA")}
    write_parts(tmp_path / "a.exr", [("", {**plain, "Depth.V": rgba[..., 3].copy()})])
    layers = read_layers(tmp_path / "a.exr", ("Combined", "Depth"), (W, H))
    assert np.array_equal(layers["Combined"], rgba)
    assert np.array_equal(layers["Depth"][..., 0], rgba[..., 3])
    write_parts(tmp_path / "b.exr", [("VL.Combined", plain), ("VL.Depth", {"Z": rgba[..., 3].copy()})])
    assert np.array_equal(read_layers(tmp_path / "b.exr", ("Combined",), (W, H))["Combined"], rgba)


def test_missing_pass_names_the_file_and_what_it_has(tmp_path: Path) -> None:
    """An EXR without the depth that a loss wants is an error before the fit begins."""
    write_view(tmp_path / "a.exr", combined())
    with pytest.raises(UserError, match=r"a\.exr lacks the pass Depth; it has ViewLayer\.Combined"):
        CaptureImages(one_view(tmp_path), "train", LINEAR, with_depth=True)


def test_other_size_names_both_sizes(tmp_path: Path) -> None:
    """A view of another size than its camera says is an error, for EXR and for pictures."""
    write_view(tmp_path / "a.exr", combined()[:, :-1])
    with pytest.raises(UserError, match=rf"a\.exr is {W - 1} x {H} pixels, but its camera says {W} x {H}"):
        CaptureImages(one_view(tmp_path), "train", LINEAR)
    Image.new("RGB", (W, H + 1)).save(tmp_path / "a.png")
    with pytest.raises(UserError, match=rf"a\.png is {W} x {H + 1} pixels, but its camera says {W} x {H}"):
        CaptureImages(one_view(tmp_path, None, "a.png"), "train", LINEAR)


@pytest.mark.parametrize("name", ["a.exr", "a.png"])
@pytest.mark.parametrize("content", [b"", b"no picture at all", None])
def test_unreadable_file_is_named(tmp_path: Path, name: str, content: bytes | None) -> None:
    """An empty, foreign or missing file is an error that names it."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    capture = one_view(tmp_path, *((name, None) if name == "a.exr" else (None, name)))
    with pytest.raises(UserError, match=name.replace(".", r"\.")) as caught:
        CaptureImages(capture, "train", LINEAR)
    assert caught.value.hint


def test_file_cut_off_behind_its_header_is_named(tmp_path: Path) -> None:
    """A truncated file whose header is whole is an error when its pixels are read."""
    write_view(tmp_path / "a.exr", combined())
    whole = (tmp_path / "a.exr").read_bytes()
    (tmp_path / "a.exr").write_bytes(whole[:-20])
    with pytest.raises(UserError, match=r"a\.exr is not a readable EXR"):
        CaptureImages(one_view(tmp_path), "train", LINEAR)[0]
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (H, W, 4), np.uint8)).save(tmp_path / "a.png")
    png = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(png[: len(png) // 2])
    with pytest.raises(UserError, match=r"a\.png is a damaged picture"):
        CaptureImages(one_view(tmp_path, None, "a.png"), "train", LINEAR)[0]


def test_nan_pixels_are_masked_with_a_warning(tmp_path: Path) -> None:
    """Pixels that are not finite become zero, are marked, and are told of; the others stay."""
    rgba = combined()
    rgba[1, 2, 0], rgba[3, 4, 3] = np.nan, np.inf
    write_view(tmp_path / "a.exr", rgba)
    said: list[str] = []
    view = CaptureImages(one_view(tmp_path), "train", LINEAR, warn=said.append)[0]
    assert view.valid is not None and int((~view.valid).sum()) == 2
    assert not view.valid[1, 2] and not view.valid[3, 4]
    assert torch.isfinite(view.color).all() and torch.isfinite(view.alpha).all()
    assert torch.equal(view.color[0], torch.from_numpy(rgba[0, :, :3]))
    assert len(said) == 1 and "a.exr has 2 pixels" in said[0]


def test_a_mask_says_what_counts(tmp_path: Path) -> None:
    """Where the mask is black a pixel does not count, nor its depth and normal; any other grey lets it count."""
    rgba = combined()
    rgba[..., 3], rgba[4, 4, 0] = 1.0, np.nan
    normal = np.ones((H, W, 3), np.float32)
    write_view(tmp_path / "a.exr", rgba, Depth=np.full((H, W, 1), 3.0, np.float32), Normal=normal)
    grey = np.full((H, W), 255, np.uint8)
    grey[1, 2], grey[0, 3] = 0, 7
    Image.fromarray(grey).save(tmp_path / "m.png")
    capture = one_view(tmp_path)
    capture = replace(capture, views=(replace(capture.views[0], mask="m.png"),))
    options = {"with_depth": True, "with_normals": True, "warn": lambda message: None}
    view = CaptureImages(capture, "train", LINEAR, **options)[0]  # type: ignore[arg-type]
    assert view.valid is not None and view.depth is not None and view.normals is not None
    assert (~view.valid).nonzero().tolist() == [[1, 2], [4, 4]]
    assert (view.depth == 0).nonzero().tolist() == [[1, 2], [4, 4]] and not view.normals[1, 2].any()
    Image.fromarray(grey[:-1]).save(tmp_path / "m.png")
    with pytest.raises(UserError, match=r"m\.png is 7 x 4 pixels"):
        CaptureImages(capture, "train", LINEAR)


def test_depth_of_nothing_is_zero(tmp_path: Path) -> None:
    """Blender's 1e10, and whatever stands where alpha is 0, become 0; normals too where alpha is 0."""
    rgba = combined()
    rgba[..., 3] = 1.0
    rgba[0, 0, 3] = 0.0
    depth = np.full((H, W, 1), 3.0, np.float32)
    depth[2, 2] = 1e10
    write_view(tmp_path / "a.exr", rgba, Depth=depth, Normal=np.ones((H, W, 3), np.float32))
    view = CaptureImages(one_view(tmp_path), "train", LINEAR, with_depth=True, with_normals=True)[0]
    assert view.depth is not None and view.normals is not None
    assert view.depth[0, 0] == 0 and view.depth[2, 2] == 0
    assert int((view.depth == 3.0).sum()) == H * W - 2
    assert view.normals[0, 0].abs().sum() == 0 and view.normals[1, 1].sum() == 3


def test_linear_capture_in_both_formations(tmp_path: Path) -> None:
    """Linear light is taken as it is for ``blender``, HDR included; ``classic`` takes encode(unpremultiplied) A."""
    rgba = combined()
    write_view(tmp_path / "a.exr", rgba)
    blender = CaptureImages(one_view(tmp_path), "train", LINEAR)[0]
    assert torch.equal(blender.color, torch.from_numpy(rgba[..., :3])) and blender.color.max() > 1
    classic = CaptureImages(one_view(tmp_path), "train", CLASSIC)[0]
    alpha = torch.from_numpy(rgba[..., 3:])
    expected = encode_srgb(torch.from_numpy(rgba[..., :3]) / alpha.clamp_min(1e-6)) * alpha
    torch.testing.assert_close(classic.color, expected)
    assert torch.equal(classic.alpha, alpha[..., 0])


def test_picture_in_both_formations(tmp_path: Path) -> None:
    """A display picture with straight alpha: rgb A for ``classic``, decoded rgb times A for ``blender``."""
    pixels = np.random.default_rng(0).integers(0, 256, (H, W, 4), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    rgb, alpha = (
        torch.from_numpy(pixels[..., :3] / np.float32(255)),
        torch.from_numpy(pixels[..., 3:] / np.float32(255)),
    )
    capture = one_view(tmp_path, None, "a.png", color_space="srgb")
    torch.testing.assert_close(CaptureImages(capture, "train", CLASSIC)[0].color, rgb * alpha)
    torch.testing.assert_close(CaptureImages(capture, "train", LINEAR)[0].color, decode_srgb(rgb) * alpha)


@pytest.mark.parametrize(
    ("mode", "alpha"), [("RGB", 1.0), ("L", 1.0), ("LA", 0.5), ("P", 1.0), ("I;16", 1.0)]
)
def test_pictures_of_every_mode(tmp_path: Path, mode: str, alpha: float) -> None:
    """Grey, palette and 16-bit grey pictures read as colours; alpha is 1 where there is none."""
    if mode == "I;16":
        Image.fromarray(np.full((H, W), 13107, np.uint16)).save(tmp_path / "a.png")
    else:
        picture = Image.new("RGBA", (W, H), (51, 51, 51, 128))
        picture.convert("RGB" if mode == "P" else mode).convert(mode).save(tmp_path / "a.png")
    colors, alphas = read_picture(tmp_path / "a.png")
    assert colors.shape == (H, W, 3) and alphas.shape == (H, W)
    assert np.allclose(colors, 0.2, atol=0.003) and np.allclose(alphas, alpha, atol=0.01)


def test_target_chooses_the_file(tmp_path: Path) -> None:
    """``linear`` takes the EXR, ``display`` the picture, ``auto`` what the capture calls the truth or what there is."""
    write_view(tmp_path / "a.exr", combined())
    Image.new("RGBA", (W, H), (255, 0, 0, 255)).save(tmp_path / "a.png")
    both = one_view(tmp_path, "a.exr", "a.png")

    def is_picture(capture: Capture, target: str) -> bool:
        images = CaptureImages(capture, "train", CLASSIC, target=target)  # type: ignore[arg-type]
        return bool(torch.equal(images[0].color[0, 0], torch.tensor([1.0, 0.0, 0.0])))

    assert not is_picture(both, "linear") and is_picture(both, "display") and not is_picture(both, "auto")
    assert is_picture(one_view(tmp_path, "a.exr", "a.png", color_space="srgb"), "auto")
    assert is_picture(one_view(tmp_path, None, "a.png"), "auto")
    with pytest.raises(UserError, match=r"'the camera'.*has no EXR file"):
        CaptureImages(one_view(tmp_path, None, "a.png"), "train", CLASSIC, target="linear")
    with pytest.raises(UserError, match="has no display picture"):
        CaptureImages(one_view(tmp_path), "train", CLASSIC, target="display")
    with pytest.raises(UserError, match=r"a\.png has no pass Depth"):
        CaptureImages(one_view(tmp_path, None, "a.png"), "train", CLASSIC, with_depth=True)


def test_budget_decides_what_is_kept(tmp_path: Path) -> None:
    """With room all views stay, exactly; with half the room as float16; without room each is read anew."""
    capture = write_tiny_capture(tmp_path, views=2, hold_out=0)
    exact = CaptureImages(capture, "train", LINEAR)
    size = 2 * exact[0].color.nbytes + exact[0].alpha.nbytes
    half = CaptureImages(capture, "train", LINEAR, budget_bytes=size)
    torch.testing.assert_close(half[0].color, exact[0].color, rtol=6e-4, atol=1e-6)
    none = CaptureImages(capture, "train", LINEAR, budget_bytes=0)
    first = none[0].color
    assert torch.equal(none[0].color, first)
    pair = exact[0], half[0], exact[1], half[1]
    for view in capture.views:
        (tmp_path / str(view.exr)).unlink()
    assert torch.equal(exact[0].color, pair[0].color) and torch.equal(half[1].color, pair[3].color)
    with pytest.raises(UserError, match=r"There is no file .*0000\.exr"):
        none[0]


def test_real_data_set(shared_data: Path) -> None:
    """The NeRF-synthetic suzanne256 gives 60 training and 12 held-out views with its cameras and alpha."""
    capture = read_capture(shared_data / "dataset" / "suzanne256")
    train, test = CaptureImages(capture, "train", LINEAR), CaptureImages(capture, "test", LINEAR)
    assert (len(train), len(test)) == (60, 12)
    view = train[3]
    assert view.color.shape == (256, 256, 3) and view.intrinsics[0].item() == pytest.approx(302.748, abs=1e-2)
    assert 0.05 < view.alpha.mean() < 0.95 and (view.color.amax(dim=-1) <= view.alpha + 1e-6).all()


def test_write_layers_refuses_a_folder_that_is_a_file(tmp_path: Path) -> None:
    """A view that cannot be written is an error that names the file."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match=r"Cannot write .*a\.exr"):
        write_layers(tmp_path / "file" / "a.exr", {"Combined": combined()})
