"""addon.display.engine_view and its operators: the engine's picture of a view, from the engine that fits or from Blender's own kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bpy
import numpy as np
import pytest

from addon import panels, registration
from addon.capture.cameras import camera_of, image_frame
from addon.display import engine_view, preview
from addon.runs import running
from addon.runs.session import Session
from addon.scene import splat_object
from splat_engine.formats import events
from splat_engine.formats.cameras import camera_from_frame
from splat_engine.formats.errors import UserError
from splat_engine.formats.run import RunDirectory
from splat_engine.formats.splats import Splats
from tests.addon.clouds import cloud
from tests.addon.fake_layout import draw
from tests.addon.test_preview import Engine

WIDTH, HEIGHT = 200, 120


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    registration.register()
    yield
    registration.unregister()


def blender_camera(kind: str = "PERSP", shift: float = 0.0) -> Any:
    """A camera object at (1, -6, 2), looking along y and a little down."""
    data = bpy.data.cameras.new("Camera")
    data.type, data.lens, data.ortho_scale, data.shift_x, data.shift_y = kind, 40, 5, shift, -shift / 2
    made = bpy.data.objects.new("Camera", data)
    made.location, made.rotation_euler = (1, -6, 2), (1.3, 0.1, 0.15)
    bpy.context.scene.collection.objects.link(made)
    bpy.context.scene.camera = made
    bpy.context.scene.render.resolution_x, bpy.context.scene.render.resolution_y = WIDTH, HEIGHT
    bpy.context.view_layer.update()
    return made


def ball(position: tuple[float, float, float] = (0, 0, 0), opacity_logit: float = 8.0) -> Splats:
    """One opaque orange ball."""
    encoded = np.float32([1.0, 0.5, 0.1])
    return Splats(
        means=np.float32([position]),
        log_scales=np.full((1, 3), np.log(0.3)),
        quats_wxyz=np.float32([[1, 0, 0, 0]]),
        opacity_logits=np.float32([opacity_logit]),
        sh=((encoded - 0.5) / 0.28209479).reshape(1, 1, 3),
    )


@pytest.mark.parametrize("kind", ["PERSP", "ORTHO"])
@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_viewport_is_drawn_as_blender_projects_it(kind, shift):
    """From a viewport's matrices comes the camera that Blender's own has whose matrices they are; also when shifted."""
    made = blender_camera(kind, shift)
    depsgraph = bpy.context.evaluated_depsgraph_get()
    view = SimpleNamespace(
        view_matrix=made.matrix_world.inverted(),
        window_matrix=made.calc_matrix_camera(depsgraph, x=WIDTH, y=HEIGHT),
    )
    space = SimpleNamespace(clip_start=0.1, clip_end=100.0)
    found = engine_view.viewport_camera(view, space, WIDTH, HEIGHT)
    expected, _ = camera_of(made.data, made.matrix_world, image_frame(bpy.context.scene.render), "")
    points = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    pixels, depth = found.project(points)
    wanted, wanted_depth = expected.project(points)
    assert np.abs(pixels - wanted).max() < 0.01 and found.model == expected.model
    behind = 100.0 if kind == "ORTHO" else 0.0
    assert np.allclose(depth, wanted_depth + behind, atol=1e-4)


def test_scene_camera_where_there_is_no_viewport(monkeypatch):
    """Without a viewport the scene's camera is drawn; a large picture is made smaller, a panorama refused in words."""
    monkeypatch.setattr(engine_view, "_largest_viewport", lambda context: None)
    with pytest.raises(UserError, match="no camera"):
        engine_view.camera_to_draw(bpy.context)
    made = blender_camera()
    assert engine_view.camera_to_draw(bpy.context).width == WIDTH
    bpy.context.scene.render.resolution_x = 4000
    assert engine_view.camera_to_draw(bpy.context).width == engine_view.LONGEST_SIDE_PX
    made.data.type = "PANO"
    with pytest.raises(UserError, match="panoramic"):
        engine_view.camera_to_draw(bpy.context)


@pytest.mark.parametrize("is_classic", [False, True])
def test_ball_is_drawn_where_it_is_in_its_colour(is_classic):
    """In either formation the middle of an opaque ball has the splat's encoded colour, and its place is the projection's."""
    made = blender_camera()
    camera, _ = camera_of(made.data, made.matrix_world, image_frame(bpy.context.scene.render), "")
    picture = engine_view.draw_splats(ball(), camera, is_classic=is_classic)
    column, row = np.floor(camera.project(np.zeros((1, 3)))[0][0]).astype(int)
    assert picture.shape == (HEIGHT, WIDTH, 4)
    assert np.allclose(picture[row, column], [1.0, 0.5, 0.1, 0.99], atol=0.02)
    assert picture[..., 3].max() == pytest.approx(picture[row, column, 3], abs=1e-3)
    assert not picture[0].any()


def test_button_draws_the_splat_object(monkeypatch):
    """At rest the button draws the active splat object, transform applied, into one image that is used again."""
    monkeypatch.setattr(engine_view, "_largest_viewport", lambda context: None)
    blender_camera()
    assert not bpy.ops.splatfit.render_engine_view.poll()
    object = splat_object.add_splats(ball((0, 0, 5)), bpy.context.scene).object
    object.location.z = -5
    bpy.context.view_layer.update()
    for _ in range(2):
        assert bpy.ops.splatfit.render_engine_view() == {"FINISHED"}
    (image,) = bpy.data.images
    assert image.name == "Splatfit Preview" and tuple(image.size) == (WIDTH, HEIGHT) and not image.is_dirty
    pixels = np.empty(WIDTH * HEIGHT * 4, np.float32)
    image.pixels.foreach_get(pixels)
    column, row = np.floor(engine_view.camera_to_draw(bpy.context).project(np.zeros((1, 3)))[0][0]).astype(
        int
    )
    shown = pixels.reshape(HEIGHT, WIDTH, 4)[::-1][row, column]
    assert np.allclose(shown, [1.0, 0.5, 0.1, 0.99], atol=0.03)


class DrawingEngine(Engine):
    """Draws a picture of one colour when it is asked for a preview."""

    drawn: list[Any]

    def send(self, command: events.Command) -> bool:
        if isinstance(command, events.Preview):
            camera = camera_from_frame(command.frame, {}, where="test")
            self.drawn = [*getattr(self, "drawn", []), camera]
            _write_picture(self.run.preview, camera.width, camera.height, len(self.drawn) / 10)
            self.waiting.append(events.FileWritten(kind="preview", seconds=0.01))
            return True
        return super().send(command)


def _write_picture(path: Path, width: int, height: int, grey: float) -> None:
    made: Any = bpy.data.images.new("made", width, height)
    made.pixels.foreach_set(np.tile(np.float32([grey, grey, grey, 1]), width * height))
    made.filepath_raw, made.file_format = str(path), "PNG"
    made.save()
    bpy.data.images.remove(made)


@pytest.fixture
def fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[running.Running]:
    monkeypatch.setattr(engine_view, "_largest_viewport", lambda context: None)
    blender_camera()
    bpy.context.scene.splatfit.live_preview = False
    run = RunDirectory.create(tmp_path / "run")
    session = Session(run, lambda: DrawingEngine(run))
    session.start()
    session.poll()
    job = running.Running(session, bpy.context.scene.name)
    running.begin(job)
    yield job
    running.forget()


def middle() -> float:
    """Red of the picture that is shown."""
    image = engine_view.preview_image()
    return float(image.pixels[0])


def test_engine_that_fits_draws(fit):
    """While a fit runs the engine draws the camera; the picture is loaded when it has come, into the same image."""
    assert bpy.ops.splatfit.render_engine_view() == {"FINISHED"}
    assert engine_view.preview_image() is None
    fit.session.poll()
    preview.tick(fit)
    assert middle() == pytest.approx(0.1, abs=0.01) and tuple(engine_view.preview_image().size) == (
        WIDTH,
        HEIGHT,
    )
    bpy.context.scene.render.resolution_x = WIDTH // 2
    bpy.ops.splatfit.render_engine_view()
    fit.session.poll()
    preview.tick(fit)
    assert middle() == pytest.approx(0.2, abs=0.01) and len(bpy.data.images) == 1
    assert tuple(engine_view.preview_image().size) == (WIDTH // 2, HEIGHT)


def test_pictures_nobody_asked_for_are_not_loaded(fit):
    """The engine draws one beside each of its own snapshots: that is none of the image's business."""
    _write_picture(fit.session.run.preview, 8, 8, 0.5)
    fit.session.report.previews += 1
    preview.tick(fit)
    assert engine_view.preview_image() is None


def test_view_is_followed(fit):
    """With the switch on, a picture every three seconds; without a camera it waits, and fails nothing."""
    bpy.context.scene.splatfit.follow_view = True
    now_s = 0.0
    requests = engine_view.Requests(fit.session, clock=lambda: now_s)
    for passed_s in (0.0, 1.0, 2.9, 3.1):
        now_s = passed_s
        requests.tick(follows=True)
        fit.session.poll()
        requests.tick(follows=True)
    assert len(fit.session._engine.drawn) == 2 and middle() == pytest.approx(0.2, abs=0.01)
    bpy.context.scene.camera = None
    now_s = 10.0
    requests.tick(follows=True)
    assert len(fit.session._engine.drawn) == 2


def test_panel_shows_what_there_is(fit):
    """While it fits: the switches, the button; after a picture the way to a window; at rest only for splats."""
    panel = panels.preview.SPLATFIT_PT_preview
    assert panel.poll(bpy.context)
    layout = draw(panel)
    shown = {a.get("property") for _, a in layout.calls}
    assert {"live_preview", "follow_view"} <= shown and layout.operators() == ["splatfit.render_engine_view"]
    before = engine_view.icon.pictures
    bpy.ops.splatfit.render_engine_view()
    fit.session.poll()
    preview.tick(fit)
    assert "splatfit.open_engine_view" in draw(panel).operators()
    assert engine_view.icon.pictures == before + 1
    running.forget()
    assert not panel.poll(bpy.context)
    bpy.context.view_layer.objects.active = splat_object.add_splats(cloud(), bpy.context.scene).object
    assert panel.poll(bpy.context)
    assert "live_preview" not in {a.get("property") for _, a in draw(panel).calls}
