"""The PLY container: what is written is read back, and what is damaged is refused in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.ply import read_ply_element, write_ply_element

ENCODINGS = ("ascii", "binary_little_endian", "binary_big_endian")
TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")
NAMES = st.text("abcdefghijklmnopqrstuvwxyz_0123456789", min_size=1, max_size=8)


def column(kind: str, count: int, seed: int) -> NDArray[np.generic]:
    """Returns [count] values over the whole range of a type, its extremes among them."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(kind)
    if dtype.kind == "f":
        values = rng.normal(size=count) * 10.0 ** rng.integers(-30, 30, count)
        values[: min(count, 3)] = [np.nan, np.inf, -0.0][: min(count, 3)]
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    values = rng.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
    values[: min(count, 2)] = [limits.min, limits.max][: min(count, 2)]
    return values


def header(*lines: str, encoding: str = "ascii") -> bytes:
    """Returns a PLY header with the given lines."""
    return ("\n".join(["ply", f"format {encoding} 1.0", *lines, "end_header"]) + "\n").encode()


@given(
    kinds=st.dictionaries(NAMES, st.sampled_from(TYPES), min_size=1, max_size=6),
    count=st.integers(0, 9),
    encoding=st.sampled_from(ENCODINGS),
    comments=st.lists(
        st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), max_size=9)
    ),
    seed=st.integers(0, 999),
)
def test_what_is_written_is_read_back(
    tmp_path: Path, kinds: dict[str, str], count: int, encoding: str, comments: list[str], seed: int
) -> None:
    """Every type, any order of properties, each encoding: bit for bit the same, NaN and infinity too."""
    columns = {name: column(kind, count, seed + i) for i, (name, kind) in enumerate(kinds.items())}
    path = tmp_path / "x.ply"
    write_ply_element(path, columns, comments=comments, encoding=encoding)
    element = read_ply_element(path)
    assert element.count == count and list(element.properties) == list(columns)
    assert element.comments == tuple(comments)
    for name, values in columns.items():
        read = element.properties[name]
        assert read.dtype == values.dtype and read.dtype.isnative
        np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("ascii", b"1.5 258\n"),
        ("binary_little_endian", b"\0\0\xc0\x3f\x02\x01"),
        ("binary_big_endian", b"\x3f\xc0\0\0\x01\x02"),
    ],
)
def test_the_bytes_are_those_of_the_format(tmp_path: Path, encoding: str, body: bytes) -> None:
    """Byte by byte, for other programs read them: header, types, order, no padding."""
    columns = {"x": np.array([1.5], np.float32), "id": np.array([258], np.uint16)}
    write_ply_element(tmp_path / "x.ply", columns, encoding=encoding)
    head = header("element vertex 1", "property float x", "property ushort id", encoding=encoding)
    assert (tmp_path / "x.ply").read_bytes() == head + body
    assert read_ply_element(tmp_path / "x.ply").properties["id"][0] == 258


def test_comments_keep_their_inner_spaces_and_lose_line_breaks(tmp_path: Path) -> None:
    """A path in a comment survives; a line break cannot start a header line of its own."""
    write_ply_element(
        tmp_path / "x.ply", {"x": np.zeros(1, np.float32)}, comments=["a  b", "c\nelement vertex 9"]
    )
    element = read_ply_element(tmp_path / "x.ply")
    assert element.comments == ("a  b", "c element vertex 9") and element.count == 1


def test_long_comments_and_undecodable_ones_are_legal(tmp_path: Path) -> None:
    """A long settings dump in a comment, or a path in an unknown encoding, does not make the file unreadable."""
    write_ply_element(
        tmp_path / "x.ply", {"x": np.zeros(1, np.float32)}, comments=["y" * 100_000, "bad \udcff"]
    )
    assert [len(comment) for comment in read_ply_element(tmp_path / "x.ply").comments] == [100_000, 5]


def test_both_spellings_of_types_are_read(tmp_path: Path) -> None:
    """float32 and float, uint8 and uchar ... are the same types."""
    spelled = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64"]
    lines = ["element vertex 1", *(f"property {name} p{i}" for i, name in enumerate(spelled))]
    (tmp_path / "x.ply").write_bytes(header(*lines) + b"1 2 3 4 5 6 7.5 8.5\n")
    properties = read_ply_element(tmp_path / "x.ply").properties
    assert [properties[f"p{i}"].dtype.str[1:] for i in range(8)] == list(TYPES)
    assert [properties[f"p{i}"][0] for i in range(8)] == [1, 2, 3, 4, 5, 6, 7.5, 8.5]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_elements_in_front_are_passed_over(tmp_path: Path, encoding: str) -> None:
    """Scalar elements before the vertices are skipped; what follows them, lists included, is not looked at."""
    lines = ["element camera 2", "property uchar id", "element face 0", "property list uchar int corners"]
    lines += ["element vertex 1", "property uchar x", "element strip 5", "property list uchar int corners"]
    body = b"7\n8\n9\nrubbish" if encoding == "ascii" else b"\x07\x08\x09rubbish"
    (tmp_path / "x.ply").write_bytes(header(*lines, encoding=encoding) + body)
    assert read_ply_element(tmp_path / "x.ply").properties["x"].tolist() == [9]


def test_windows_line_ends_and_obj_info_are_read(tmp_path: Path) -> None:
    """A header with carriage returns and obj_info lines is legal."""
    text = header("obj_info made by hand", "element vertex 2", "property float x").replace(b"\n", b"\r\n")
    (tmp_path / "x.ply").write_bytes(text + b"1\r\n2\r\n")
    assert read_ply_element(tmp_path / "x.ply").properties["x"].tolist() == [1, 2]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_prefix_of_a_file_is_refused_in_words(tmp_path: Path, encoding: str) -> None:
    """A file cut off at any byte gives an error that names it; never another exception, never fewer points."""
    columns = {name: column(kind, 3, 5) for name, kind in (("x", "f4"), ("id", "u2"), ("y", "f8"))}
    write_ply_element(tmp_path / "whole.ply", columns, comments=["a comment"], encoding=encoding)
    whole = (tmp_path / "whole.ply").read_bytes()
    cut = tmp_path / "cut.ply"
    # An ascii file's last characters may go: without the last line end it still says the same.
    for size in range(len(whole) - 1):
        cut.write_bytes(whole[:size])
        try:
            element = read_ply_element(cut)
        except UserError as error:
            assert str(cut) in error.headline and error.hint
        else:
            assert encoding == "ascii" and whole[size:].strip().replace(b".", b"").isalnum(), size
            np.testing.assert_array_equal(element.properties["id"], columns["id"])


@settings(max_examples=200)
@given(st.data())
def test_damaged_files_give_no_other_exception(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes changed, removed or put in anywhere: either it still reads, or a UserError says so."""
    encoding = data.draw(st.sampled_from(ENCODINGS))
    columns = {"x": np.arange(3, dtype=np.float32), "id": np.arange(3, dtype=np.uint8)}
    write_ply_element(tmp_path / "whole.ply", columns, encoding=encoding)
    whole = bytearray((tmp_path / "whole.ply").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(whole) - 1))
        end = start + data.draw(st.integers(0, 4))
        whole[start:end] = data.draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b" 99", "²".encode(), b"\n"]))
        )
    (tmp_path / "damaged.ply").write_bytes(whole)
    try:
        read_ply_element(tmp_path / "damaged.ply")
    except UserError as error:
        assert str(tmp_path / "damaged.ply") in error.headline


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "does not begin with 'ply'"),
        (b"solid cube\n", "does not begin with 'ply'"),
        (b"ply\nformat ascii 1.0\n", "no end_header"),
        (b"ply\nelement vertex 0\nend_header\n", "states no format"),
        (header("element vertex x"), "element vertex x"),
        (header("element vertex -1"), "element vertex -1"),
        (header("element vertex ²"), "element vertex"),
        (header("element vertex 1 2"), "element vertex 1 2"),
        (header("property float x"), "property float x"),
        (header("element vertex 1", "property half x"), "property half x"),
        (header("element vertex 1", "property float x", "property int x"), "'x' stands twice"),
        (header("element vertex 1", "property list uchar int x"), "list property"),
        (header("element face 1", "property list uchar int x", "element vertex 0"), "list property"),
        (header("nonsense"), "nonsense"),
        (header("element face 0"), "no element 'vertex'"),
        (header("element vertex 2", "property float x") + b"1\n", "cut off"),
        (header("element vertex 2", "property float x") + b"1\n\n", "2 rows"),
        (header("element vertex 1", "property float x") + b"1 2\n", "1 numbers, got 1 x 2"),
        (header("element vertex 2", "property float x") + b"1\n2 3\n", "not a row of numbers"),
        (header("element vertex 1", "property float x") + b"one\n", "not a row of numbers"),
        (header("element vertex 1", "property uchar x") + b"256\n", "256"),
        (header("element vertex 1", "property uchar x") + b"0.5\n", "0.5"),
        (header("element vertex 1", "property int x") + b"nan\n", "nan"),
        (header("element vertex 999999999999999999", "property float x"), "cut off"),
        (
            header("element vertex 999999999999999999", "property float x", encoding="binary_big_endian"),
            "cut off",
        ),
        (b"ply\nformat binary_middle_endian 1.0\nend_header\n", "binary_middle_endian"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: bytes, words: str) -> None:
    """Each fault has words of its own."""
    (tmp_path / "bad.ply").write_bytes(content)
    with pytest.raises(FormatError) as caught:
        read_ply_element(tmp_path / "bad.ply")
    assert words in caught.value.headline
    assert caught.value.hint


def test_missing_file_and_folder_are_said(tmp_path: Path) -> None:
    """A path that is no file is a UserError, not an OSError."""
    with pytest.raises(UserError, match="There is no file"):
        read_ply_element(tmp_path / "none.ply")
    with pytest.raises(UserError, match="Cannot read"):
        read_ply_element(tmp_path)


def test_an_element_without_properties_has_none(tmp_path: Path) -> None:
    """Legal, if useless."""
    (tmp_path / "x.ply").write_bytes(header("element vertex 5", encoding="binary_little_endian"))
    element = read_ply_element(tmp_path / "x.ply")
    assert element.count == 5 and not element.properties


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"x": np.zeros(2), "y": np.zeros(3)}, "one length"),
        ({"x": np.zeros(2, np.int64)}, "no type"),
        ({"x": np.zeros(2, bool)}, "no type"),
        ({"two words": np.zeros(2)}, "single words"),
        ({"": np.zeros(2)}, "single words"),
    ],
)
def test_what_ply_cannot_hold_is_refused_before_writing(
    tmp_path: Path, properties: dict[str, NDArray[np.generic]], words: str
) -> None:
    """A caller's mistake is a ValueError, and no file appears."""
    with pytest.raises(ValueError, match=words):
        write_ply_element(tmp_path / "x.ply", properties)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="encoding"):
        write_ply_element(tmp_path / "x.ply", {"x": np.zeros(2)}, encoding="utf-8")
