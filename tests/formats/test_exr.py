"""The EXR reader agrees with the package OpenEXR, and refuses in words what it cannot read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.exr import check_exr, read_exr, read_passes

OpenEXR = pytest.importorskip(
    "OpenEXR", reason="the package OpenEXR, the oracle, is in the engine's Python alone"
)

LOSSLESS = {
    "NONE": OpenEXR.NO_COMPRESSION,
    "RLE": OpenEXR.RLE_COMPRESSION,
    "ZIPS": OpenEXR.ZIPS_COMPRESSION,
    "ZIP": OpenEXR.ZIP_COMPRESSION,
}


def image(shape: tuple[int, int], dtype: str, seed: int, smooth: bool) -> np.ndarray:
    """Returns pixels that compress (a ramp) or that do not (noise), with extreme values."""
    rng = np.random.default_rng(seed)
    pixels = np.arange(shape[0] * shape[1]).reshape(shape) / 7.0 if smooth else rng.normal(size=shape) * 100
    if dtype == "uint32":
        return (np.abs(pixels) * 1e6).astype(np.uint32)
    pixels = pixels.astype(dtype)
    pixels.flat[0] = np.inf
    return pixels


def write(path: Path, parts: list[tuple[str, dict[str, np.ndarray]]], compression: str) -> None:
    headers = [
        {"name": name, "type": OpenEXR.scanlineimage, "compression": LOSSLESS[compression]}
        for name, _ in parts
    ]
    if len(parts) == 1:
        OpenEXR.File({k: v for k, v in headers[0].items() if k != "name"}, dict(parts[0][1])).write(str(path))
    else:  # OpenEXR replaces the values of the dict it is given
        made = [OpenEXR.Part(h, dict(part[1]), part[0]) for h, part in zip(headers, parts, strict=True)]
        OpenEXR.File(made).write(str(path))


@pytest.mark.parametrize("compression", LOSSLESS)
@pytest.mark.parametrize("part_count", [1, 3])
@pytest.mark.parametrize("shape", [(1, 1), (17, 5), (40, 64)])
@pytest.mark.parametrize("smooth", [True, False])
def test_agrees_with_openexr(
    tmp_path: Path, compression: str, part_count: int, shape: tuple[int, int], smooth: bool
) -> None:
    """Every lossless compression but PIZ, one part and three, half, float and uint, is read bit for bit."""
    parts = []
    for number in range(part_count):
        channels = {
            f"L{number}.{letter}": image(shape, dtype, number, smooth)
            for letter, dtype in zip("XYZ", ("float16", "float32", "uint32"), strict=True)
        }
        parts.append((f"L{number}", channels))
    path = tmp_path / "a.exr"
    write(path, parts, compression)
    expected = {name: pixels for _, channels in parts for name, pixels in channels.items()}
    got = read_exr(path)
    assert set(got) == set(expected)
    for name, pixels in expected.items():
        assert got[name].dtype == pixels.dtype
        np.testing.assert_array_equal(got[name], pixels)


def test_only_wanted_channels_are_read(tmp_path: Path) -> None:
    """The predicate chooses by the full name, and a part's name is put in front where the channel lacks it."""
    path = tmp_path / "a.exr"
    pixels = image((4, 4), "float32", 0, False)
    write(path, [("beauty", {"R": pixels}), ("other", {"R": pixels + 1})], "ZIP")
    got = read_exr(path, lambda name: name.startswith("other"))
    assert list(got) == ["other.R"]
    np.testing.assert_array_equal(got["other.R"], pixels + 1)


@pytest.mark.parametrize("index", ["IndexOB.X", "Object Index.X"])
def test_passes_of_both_blenders(tmp_path: Path, index: str) -> None:
    """Pass names of 4.5 and of 5.x give the same arrays, and a pass that is not there is absent."""
    path = tmp_path / "a.exr"
    shape = (3, 5)
    channels = {f"View Layer.Combined.{c}": image(shape, "float16", i, False) for i, c in enumerate("RGBA")}
    channels["View Layer.Depth.Z"] = image(shape, "float32", 9, False)
    channels[f"View Layer.{index}"] = image(shape, "float32", 10, False)
    write(path, [("", channels)], "ZIP")
    passes = read_passes(path)
    assert set(passes) == {"color", "depth", "object_index"}
    assert passes["color"].shape == (3, 5, 4)
    np.testing.assert_array_equal(
        passes["color"][..., 2], channels["View Layer.Combined.B"].astype(np.float32)
    )
    np.testing.assert_array_equal(passes["object_index"], channels[f"View Layer.{index}"])


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("exr") / "good.exr"
    pixels = image((20, 9), "float32", 1, True)
    write(path, [("a", {"a.R": pixels}), ("b", {"b.R": pixels})], "ZIP")
    return path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True))
def test_cut_off_anywhere_is_an_error(
    good: bytes, tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    """A file that ends too soon is refused by the check that decodes nothing, wherever it ends."""
    path = tmp_path_factory.mktemp("cut") / "cut.exr"
    path.write_bytes(good[: int(len(good) * share)])
    with pytest.raises(FormatError, match="cut.exr"):
        check_exr(path)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_never_shows_a_traceback(
    good: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Flipped bytes give an image or a FormatError, never another exception."""
    content = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("bad") / "bad.exr"
    path.write_bytes(bytes(content))
    try:
        read_exr(path)
    except FormatError as error:
        assert "bad.exr" in error.headline


def test_a_block_that_was_never_written_is_an_error(tmp_path: Path) -> None:
    """What Blender 4.5 leaves on a full disk, a zero in the table of offsets, is not complete."""
    path = tmp_path / "full.exr"
    write(path, [("", {"R": image((5, 7), "float32", 0, False)})], "NONE")
    content = path.read_bytes()
    last_offset = len(content) - (8 + 7 * 4)  # row number, size, one row
    entry = content.index(last_offset.to_bytes(8, "little"))
    path.write_bytes(content[:entry] + bytes(8) + content[entry + 8 :])
    with pytest.raises(FormatError, match="never written"):
        check_exr(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    """Missing, not EXR, and PIZ-compressed: each says so."""
    with pytest.raises(UserError, match="none.exr"):
        read_exr(tmp_path / "none.exr")
    (tmp_path / "text.exr").write_text("hello, this is text")
    with pytest.raises(FormatError, match="not an EXR"):
        read_exr(tmp_path / "text.exr")
    header = {"type": OpenEXR.scanlineimage, "compression": OpenEXR.PIZ_COMPRESSION}
    OpenEXR.File(header, {"R": np.zeros((4, 4), np.float32)}).write(str(tmp_path / "piz.exr"))
    with pytest.raises(FormatError, match="PIZ"):
        read_exr(tmp_path / "piz.exr")
