"""The comparison with a web viewer: cameras in its words, a browser that draws, fails or dies, and what counts as alike."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import SplatState
from splat_engine.formats.cameras import Camera
from splat_engine.formats.errors import UserError
from splat_engine.formats.splat_ply import write_splat_ply
from tests.engine.tiny_capture import known_splats, ring_cameras
from tests.formats.strategies import poses
from tools.viewer import browser as viewer
from tools.viewer.command import (
    AGREE_DB,
    COST_DB,
    OPTIONS,
    WORSE_DB,
    Comparison,
    checks,
    draw,
    draw_sheet,
    means,
    psnr,
)

PATIENCE_S = 60


@given(poses(), st.floats(-1, 2), st.floats(-1, 2), st.floats(-3, 3), st.floats(-3, 3), st.floats(0.5, 50))
def test_the_viewer_is_given_our_cameras(
    pose: np.ndarray, cx: float, cy: float, x: float, y: float, z: float
) -> None:
    """A point lands on the same pixel by the page's two matrices and by ours, off the picture too."""
    camera = Camera(64, 48, 50.0, 45.0, cx * 64, cy * 48, pose)
    view = viewer.view_of(camera)
    projection = np.reshape(view["projection"], (4, 4))
    world_from_camera = np.reshape(view["world_from_camera"], (4, 4))
    world = pose @ [x, y, z, 1.0]
    clip = projection @ np.linalg.inv(world_from_camera) @ world
    ndc = clip[:3] / clip[3]
    pixel = (ndc[0] + 1) / 2 * 64, (1 - ndc[1]) / 2 * 48
    expected = camera.fx * x / z + camera.cx, camera.fy * y / z + camera.cy
    np.testing.assert_allclose(pixel, expected, rtol=1e-6, atol=1e-6)
    assert -1 < ndc[2] < 1 and clip[3] > 0


def browser_that(tmp_path: Path, does: str) -> str:
    """Returns an executable in place of Chromium; its last argument is the page's address."""
    script = tmp_path / "browser"
    script.write_text(
        f"#!{sys.executable}\nimport json, sys, urllib.request as web\nat = sys.argv[-1]\n"
        "get = lambda path: web.urlopen(at + path).read()\n"
        "post = lambda path, body: web.urlopen(web.Request(at + path, data=body))\n" + does
    )
    script.chmod(0o755)
    return str(script)


def drawn(tmp_path: Path, does: str) -> list[np.ndarray]:
    """Draws two cameras of 44 x 36 pixels with a browser of our own."""
    (tmp_path / "splats.ply").write_bytes(b"the splats")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "a.js").write_text("a module")
    return viewer.draw_in_viewer(
        tmp_path / "splats.ply",
        ring_cameras(2),
        browser=browser_that(tmp_path, does),
        modules=tmp_path / "modules",
        options={"spark": {"blurAmount": 0}},
        timeout_s=PATIENCE_S,
    )


def test_pictures_come_back_upright(tmp_path: Path) -> None:
    """WebGL's lowest row comes first; the page finds splats, modules and its options, and nothing beside them."""
    pictures = drawn(
        tmp_path,
        "job = json.loads(get('job.json'))\n"
        "assert get('splats.ply') == b'the splats' and get('modules/a.js') == b'a module'\n"
        "assert b'script' in get('') and b'import' in get('page.js') and job['spark'] == {'blurAmount': 0}\n"
        "for path in ('modules/../browser', 'modules/none.js', 'etc/passwd'):\n"
        "    try:\n        get(path)\n        post('failed', path.encode())\n"
        "    except web.HTTPError as error:\n        assert error.code == 404\n"
        "for number, view in enumerate(job['views']):\n"
        "    w, h = view['width'], view['height']\n"
        "    post(f'picture/{number}', bytes(v for y in range(h) for x in range(w) for v in (y, x, number, 255)))\n"
        "post('done', b'{\"splats\": 1}')\n",
    )
    assert [picture.shape for picture in pictures] == [(36, 44, 4)] * 2
    for number, picture in enumerate(pictures):
        assert picture[0, 0].tolist() == [35, 0, number, 255] and picture[35, 43].tolist() == [
            0,
            43,
            number,
            255,
        ]


@pytest.mark.parametrize(
    ("does", "words", "cause"),
    [
        ("post('failed', b'no WebGL here')", "failed", "no WebGL here"),
        ("print('it is too dark', file=sys.stderr); sys.exit(3)", "came to no end", "it is too dark"),
        ("post('picture/0', bytes(44 * 36 * 4)); post('done', b'{\"splats\": 1}')", "came to no end", ""),
    ],
)
def test_a_browser_that_fails_is_quoted(tmp_path: Path, does: str, words: str, cause: str) -> None:
    """What the page or the browser said is the cause of the error; a picture that is missing is noticed."""
    with pytest.raises(UserError, match=words) as caught:
        drawn(tmp_path, does)
    assert "splats.ply" in caught.value.headline and cause in str(caught.value.cause)


def program(folder: Path, name: str, text: str) -> None:
    """Writes a shell script."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_the_viewer_is_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """npm runs where nothing stands or package.json is another one; its failure is said, and it is tried again."""
    monkeypatch.setenv("PATH", str(tmp_path))
    environment = tmp_path / "environment"
    with pytest.raises(UserError, match="No npm"):
        viewer.install_viewer(environment)
    program(tmp_path, "npm", "echo no such package >&2; exit 1")
    with pytest.raises(UserError, match="could not install") as caught:
        viewer.install_viewer(environment)
    assert "no such package" in str(caught.value.cause)
    program(tmp_path, "npm", f"echo ran >> {tmp_path}/log")
    for _ in range(2):
        assert viewer.install_viewer(environment) == environment / "node_modules"
    assert (tmp_path / "log").read_text() == "ran\n" and (environment / "package.json").is_file()
    (environment / "installed").write_text("of another day")
    viewer.install_viewer(environment)
    assert (tmp_path / "log").read_text() == "ran\nran\n"


def test_a_missing_browser_is_said_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any of the known names will do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="No Chromium") as caught:
        viewer.find_browser()
    assert "apt-get install" in caught.value.hint
    program(tmp_path, "chromium", "")
    assert viewer.find_browser() == str(tmp_path / "chromium")


def compared(agreement: float, cost: float, formation: str) -> Comparison:
    """Returns a comparison of these figures, in dB: flat pictures, each off by a little."""
    truth = np.full((8, 8, 3), 0.5)
    engine = truth + 0.01
    viewer_error = 0.01 * 10 ** (cost / 20)
    picture = truth + viewer_error
    return Comparison(formation, "view 0", engine, picture + 10 ** (-agreement / 20), picture, truth)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("agreement", "cost", "worse", "expected"),
    [
        (AGREE_DB + 0.1, COST_DB - 0.1, WORSE_DB + 0.1, [True, True, True]),
        (AGREE_DB - 0.1, COST_DB - 0.1, WORSE_DB + 0.1, [False, True, True]),
        (AGREE_DB + 0.1, COST_DB + 0.1, WORSE_DB + 0.1, [True, False, True]),
        (AGREE_DB + 0.1, COST_DB - 0.1, WORSE_DB - 0.1, [True, True, False]),
    ],
)
def test_what_counts_as_alike(agreement: float, cost: float, worse: float, expected: list[bool]) -> None:
    """Each bound fails alone, from pictures to the verdict; the sheet has a row a view."""
    pair = [compared(agreement, cost, "classic"), compared(agreement - worse, 5.0, "blender")]
    figures = means(pair)
    assert figures["classic.agreement_db"] == pytest.approx(agreement)
    assert figures["classic.cost_db"] == pytest.approx(cost)
    assert [good for good, _ in checks(figures)] == expected
    assert draw_sheet(pair).size == (3 * 16 + 8, 2 * 36 + 8)


def test_a_classic_file_looks_alike_in_spark(tmp_path: Path) -> None:
    """The real viewer, where ``make test-viewer`` has installed it: translucent splats of every direction, SH of degree 3."""
    modules = viewer.ENVIRONMENT / "node_modules"
    if not modules.is_dir():
        pytest.skip("the web viewer is not installed: make test-viewer")
    try:
        browser = viewer.find_browser()
    except UserError as error:
        pytest.skip(error.headline)
    splats, cameras = known_splats(300).with_sh_degree(3), ring_cameras(2)
    splats.sh[:, 1:] = np.random.default_rng(1).normal(size=splats.sh[:, 1:].shape) * 0.05
    write_splat_ply(tmp_path / "splats.ply", splats)
    theirs = viewer.draw_in_viewer(
        tmp_path / "splats.ply", cameras, browser=browser, modules=modules, options=OPTIONS
    )
    params = SplatState.from_splats(splats).params
    for camera, picture in zip(cameras, theirs, strict=True):
        ours = {name: draw(params, camera, ImageFormation(name), 1.0) for name in ("classic", "blender")}
        assert ours["classic"].mean() > 0.02 and ours["classic"].std() > 0.05
        agreement = {name: psnr(picture[..., :3] / 255, drawn) for name, drawn in ours.items()}
        # Spark stores log-scales in steps of 8 %, and splats of a few pixels have much of an edge: 38.7 and 39.6 dB.
        assert agreement["classic"] > 37, agreement
        assert agreement["classic"] > agreement["blender"] + 12, agreement
