"""Splats in files: round trips, odd but legal files, real files, and files of something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.ply import read_ply_element, write_ply_element
from splat_engine.formats.splat_ply import read_splat_ply, write_splat_ply
from splat_engine.formats.splats import ARRAY_NAMES, Splats
from tests.formats.strategies import random_splats

ENCODINGS = ("ascii", "binary_little_endian", "binary_big_endian")


def assert_same(read: Splats, written: Splats) -> None:
    """Asserts that two clouds are equal to the last bit."""
    for name in ARRAY_NAMES:
        np.testing.assert_array_equal(getattr(read, name), getattr(written, name), err_msg=name)


@given(
    count=st.integers(0, 5),
    degree=st.integers(0, 3),
    encoding=st.sampled_from(ENCODINGS),
    seed=st.integers(0, 99),
    metadata=st.dictionaries(
        st.text("abc_ .", min_size=1, max_size=6).map(str.strip).filter(bool),
        st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=9).map(str.strip),
        max_size=3,
    ),
)
def test_what_is_written_is_read_back(
    tmp_path: Path, count: int, degree: int, encoding: str, seed: int, metadata: dict[str, str]
) -> None:
    """Bit for bit, N = 0 included, with the header's facts, for each degree and encoding."""
    splats = random_splats(count, degree, seed)
    splats.metadata = metadata
    write_splat_ply(tmp_path / "x.ply", splats, encoding=encoding)
    read, extra, notes = read_splat_ply(tmp_path / "x.ply")
    assert_same(read, splats)
    assert read.metadata == metadata and not extra and not notes


@given(order=st.randoms(use_true_random=False), double=st.booleans(), encoding=st.sampled_from(ENCODINGS))
def test_property_order_and_precision_do_not_matter(
    tmp_path: Path, order: object, double: bool, encoding: str
) -> None:
    """A file with its properties shuffled, in float or double, holds the same cloud."""
    splats = random_splats(4, 3)
    write_splat_ply(tmp_path / "x.ply", splats)
    columns = dict(read_ply_element(tmp_path / "x.ply").properties)
    names = list(columns)
    order.shuffle(names)  # type: ignore[attr-defined]
    shuffled = {name: columns[name].astype(np.float64 if double else np.float32) for name in names}
    write_ply_element(tmp_path / "y.ply", shuffled, encoding=encoding)
    assert_same(read_splat_ply(tmp_path / "y.ply")[0], splats)


def test_rest_coefficients_are_channel_major(tmp_path: Path) -> None:
    """f_rest_k is coefficient k of red, then of green, then of blue, as graphdeco writes them."""
    splats = random_splats(2, 2)
    write_splat_ply(tmp_path / "x.ply", splats)
    columns = read_ply_element(tmp_path / "x.ply").properties
    for coefficient in range(8):
        for channel in range(3):
            column = columns[f"f_rest_{channel * 8 + coefficient}"]
            np.testing.assert_array_equal(column, splats.sh[:, 1 + coefficient, channel])
    np.testing.assert_array_equal(columns["rot_0"], splats.quats_wxyz[:, 0])
    np.testing.assert_array_equal(columns["opacity"], splats.opacity_logits)
    assert not any(columns[name].any() for name in ("nx", "ny", "nz"))


def test_extra_properties_are_kept_aside_with_a_note(tmp_path: Path) -> None:
    """They come back with their own types and can be written again."""
    extra = {"object_index": np.array([3, 4], np.uint16), "filter_3D": np.array([0.5, 0.25])}
    splats = random_splats(2, 0)
    write_splat_ply(tmp_path / "x.ply", splats, extra=extra)
    read, kept, notes = read_splat_ply(tmp_path / "x.ply")
    assert_same(read, splats)
    assert {name: (column.dtype.str[1:], column.tolist()) for name, column in kept.items()} == {
        "object_index": ("u2", [3, 4]),
        "filter_3D": ("f8", [0.5, 0.25]),
    }
    assert len(notes) == 1 and "object_index, filter_3D" in notes[0]


def test_an_extra_property_cannot_replace_the_layouts_own(tmp_path: Path) -> None:
    """Otherwise the file would hold another cloud than the caller's."""
    with pytest.raises(ValueError, match="opacity"):
        write_splat_ply(tmp_path / "x.ply", random_splats(2, 0), extra={"opacity": np.zeros(2)})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["", " ", "a=b"])
def test_metadata_that_would_not_come_back_is_refused(tmp_path: Path, key: str) -> None:
    """A key with an equals sign would be read as another key."""
    splats = random_splats(1, 0)
    splats.metadata = {key: "value"}
    with pytest.raises(ValueError, match="metadata key"):
        write_splat_ply(tmp_path / "x.ply", splats)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"opacity": None}, "lacks opacity"),
        ({"x": None, "rot_3": None}, "lacks x, rot_3"),
        ({"f_rest_8": None}, "8 f_rest"),
        ({"f_rest_9": np.zeros(2, np.float32)}, "10 f_rest"),
        ({"f_rest_3": None, "f_rest_40": np.zeros(2, np.float32)}, "without gaps"),
    ],
)
def test_files_that_are_not_splats_are_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    """What is missing or in excess is named."""
    write_splat_ply(tmp_path / "x.ply", random_splats(2, 1))
    columns = {**read_ply_element(tmp_path / "x.ply").properties, **change}
    write_ply_element(tmp_path / "y.ply", {n: c for n, c in columns.items() if c is not None})  # type: ignore[misc]
    with pytest.raises(FormatError, match=words) as caught:
        read_splat_ply(tmp_path / "y.ply")
    assert caught.value.hint


def test_a_name_that_only_looks_like_a_coefficient_is_an_extra(tmp_path: Path) -> None:
    """f_rest_² is not a number that int() reads."""
    write_splat_ply(
        tmp_path / "x.ply", random_splats(1, 0), extra={"f_rest_²": np.zeros(1), "f_rest_": np.zeros(1)}
    )
    read, extra, _ = read_splat_ply(tmp_path / "x.ply")
    assert read.sh_degree == 0 and list(extra) == ["f_rest_²", "f_rest_"]


def test_every_prefix_is_refused_in_words(tmp_path: Path) -> None:
    """A copy that broke off anywhere is a UserError."""
    write_splat_ply(tmp_path / "x.ply", random_splats(2, 1))
    whole = (tmp_path / "x.ply").read_bytes()
    for size in range(len(whole)):
        (tmp_path / "cut.ply").write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.ply"):
            read_splat_ply(tmp_path / "cut.ply")


# Real files: name to (count, degree); the variants hold the first splats of playbot5_sh2.ply.
REAL = {
    "gsplatrs_minimal_ascii.ply": (3, 0),
    "gsplatrs_minimal_binary.ply": (3, 0),
    "metalsplatter_train3.ply": (3, 3),
    "untold_ascii3_scale_first.ply": (3, 0),
    "playbot5_sh2.ply": (3000, 2),
    "variants/zero_vertices.ply": (0, 2),
}


@pytest.mark.parametrize("name", REAL)
def test_real_files_are_read(shared_data: Path, name: str) -> None:
    """Files of other programs give finite splats of the right number and degree, and no note."""
    splats, extra, notes = read_splat_ply(shared_data / "splat" / name)
    assert (len(splats), splats.sh_degree) == REAL[name]
    assert splats.finite().all() and not extra and not notes
    if len(splats):
        assert 0 < splats.opacities().mean() < 1 and splats.scales().min() > 0


@pytest.mark.parametrize(
    "name", ["ascii", "big_endian", "double", "permuted_properties", "faces_after_vertex", "sh0"]
)
def test_odd_but_legal_variants_hold_the_same_cloud(shared_data: Path, name: str) -> None:
    """Encoding, precision, order and what follows the vertices change nothing."""
    original = read_splat_ply(shared_data / "splat" / "playbot5_sh2.ply")[0]
    variant, _, notes = read_splat_ply(shared_data / "splat" / "variants" / f"{name}.ply")
    assert len(variant) in (50, 500) and not notes
    expected = original.select(np.arange(len(variant))).with_sh_degree(variant.sh_degree)
    # ascii.ply was printed with 9 digits or so; the binary ones are exact.
    tolerance = 2e-6 if name == "ascii" else 0
    for array in ARRAY_NAMES:
        np.testing.assert_allclose(
            getattr(variant, array), getattr(expected, array), rtol=tolerance, atol=tolerance
        )


def test_the_two_spellings_of_one_real_file_agree(shared_data: Path) -> None:
    """ascii and binary exports of the same three splats."""
    ascii_splats = read_splat_ply(shared_data / "splat" / "gsplatrs_minimal_ascii.ply")[0]
    assert_same(read_splat_ply(shared_data / "splat" / "gsplatrs_minimal_binary.ply")[0], ascii_splats)


def test_extra_properties_of_a_real_variant(shared_data: Path) -> None:
    """filter_3D, an id and colours are kept aside."""
    splats, extra, notes = read_splat_ply(shared_data / "splat/variants/extra_props_filter3d_id_rgb.ply")
    assert list(extra) == ["filter_3D", "id", "red", "green", "blue"] and len(notes) == 1
    assert len(splats) == 500 and all(len(column) == 500 for column in extra.values())


def test_splats_that_draw_nothing_are_counted(shared_data: Path) -> None:
    """NaN, infinity and a zero rotation are read as they are, with a note of how many."""
    splats, _, notes = read_splat_ply(shared_data / "splat/variants/nan_inf_zeroquat.ply")
    assert (~splats.finite()).sum() == 4
    assert notes == [note for note in notes if "4 of 500" in note] and len(notes) == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("variants/truncated_body.ply", "cut off"),
        ("variants/empty.ply", "does not begin"),
        ("untold_xyz_only.ply", "not one of splats"),
        ("playcanvas_guitar.compressed.ply", "not one of splats"),
        ("playbot5_sh2.glb", "does not begin"),
        ("playbot5_sh2_v3.spz", "does not begin"),
    ],
)
def test_real_files_of_something_else_are_refused(shared_data: Path, name: str, words: str) -> None:
    """Each with words that say what it is not."""
    with pytest.raises(FormatError, match=words):
        read_splat_ply(shared_data / "splat" / name)


NAMES = st.text(st.characters(blacklist_categories=["Cs"]), max_size=9)


@given(
    names=st.lists(NAMES, max_size=4).map(tuple),
    seed=st.integers(0, 99),
    encoding=st.sampled_from(ENCODINGS),
)
def test_objects_are_written_and_read_back(
    tmp_path: Path, names: tuple[str, ...], seed: int, encoding: str
) -> None:
    """Index and names of any letters, line breaks and quotes too, without a note; the metadata is as it was."""
    indices = np.random.default_rng(seed).integers(0, len(names) + 1, 5)
    splats = replace(random_splats(5, 1), metadata={"seed": "7"}, object_indices=indices, object_names=names)
    write_splat_ply(tmp_path / "x.ply", splats, encoding=encoding)
    read, extra, notes = read_splat_ply(tmp_path / "x.ply")
    assert_same(read, splats)
    assert read.object_indices is not None and read.object_indices.tolist() == indices.tolist()
    assert read.object_names == names and read.metadata == {"seed": "7"} and not extra and not notes


def test_every_number_of_objects_can_be_read(tmp_path: Path) -> None:
    """As many as a capture numbers, with the longest names that Blender takes."""
    names = tuple(f"\u6587{number:060d}" for number in range(32767))
    splats = replace(random_splats(1, 0), object_indices=[32767], object_names=names)
    write_splat_ply(tmp_path / "x.ply", splats)
    assert read_splat_ply(tmp_path / "x.ply")[0].object_names == names


def test_an_index_without_a_name_is_unknown(tmp_path: Path) -> None:
    """Another program may have joined two files: the splats stay, and the note says how many."""
    splats = replace(random_splats(3, 0), object_indices=[1, 2, 0], object_names=("Cube", "Floor"))
    write_splat_ply(tmp_path / "x.ply", splats)
    text = (tmp_path / "x.ply").read_bytes().replace(b'["Cube", "Floor"]', b'["Cube"]')
    (tmp_path / "x.ply").write_bytes(text)
    read, _, notes = read_splat_ply(tmp_path / "x.ply")
    assert read.object_indices is not None and read.object_indices.tolist() == [1, 0, 0]
    assert len(notes) == 1 and "1 splats show an object" in notes[0]


@pytest.mark.parametrize("said", ["[1]", '{"a": 1}', "Cube"])
def test_names_that_are_none_are_refused(tmp_path: Path, said: str) -> None:
    """The comment is ours, so it is JSON and a list of names, or the file is damaged."""
    splats = random_splats(1, 0)
    splats.metadata = {"object_names": said}
    write_splat_ply(tmp_path / "x.ply", splats)
    with pytest.raises(FormatError, match="object_names"):
        read_splat_ply(tmp_path / "x.ply")
