"""The tab in each of its states, on a small scene, without an engine: at rest, cameras shown, a test view, a fit, advanced.

The fit is a session that nothing runs: the panel shows what it says. What a draw of the tab costs is in Blender's log.
"""

import time
from importlib import import_module
from math import exp, radians
from pathlib import Path

import bpy
from mathutils import Euler

MODULE = "bl_ext.user_default.splatfit"


def build_scene():
    """A monkey on a floor beside a column, seen from a little above."""
    for item in list(bpy.data.objects):
        bpy.data.objects.remove(item)
    bpy.ops.mesh.primitive_plane_add(size=40)
    bpy.context.object.name = "Floor"
    bpy.ops.mesh.primitive_monkey_add(size=2, location=(0, 0, 1))
    bpy.ops.mesh.primitive_cylinder_add(radius=0.4, depth=3, location=(1.8, 1, 1.5))
    bpy.context.object.name = "Column"
    bpy.ops.object.light_add(type="SUN", rotation=(0.6, 0.2, 0))
    bpy.ops.object.select_all(action="DESELECT")


def make_room(window):
    """The viewport alone fills the window, so that the whole tab is seen; nothing is said of the engine."""
    bpy.utils.unregister_class(import_module(f"{MODULE}.panels.engine").SPLATFIT_PT_engine)
    with bpy.context.temp_override(window=window.window, area=window.area):
        bpy.ops.screen.screen_full_area(use_hide_panels=False)
    yield from window.settle(10)
    view = window.area.spaces.active.region_3d
    view.view_perspective = "PERSP"
    view.view_rotation = Euler((radians(65), 0, radians(35))).to_quaternion()
    view.view_distance, view.view_location = 26, (0, 0, 1.5)


def watch(panel):
    """Returns a list that grows with each draw of a panel's body."""
    drawn, draw = [], panel.draw
    panel.draw = lambda self, context: (drawn.append(1), draw(self, context))[1]
    return drawn


def open_lowest(window, panel):
    """Clicks the headers from below until that panel is open; those that are opened by mistake are closed again."""
    drawn = watch(panel)
    region = window.sidebar
    x = region.x + region.width // 2
    for y in range(region.y + 6, region.y + region.height, 12):
        yield from window.click_at(x, y)
        if drawn:
            return
    raise AssertionError(f"{panel.__name__} could not be opened")


def pretend(state, **report):
    """Makes a session in a given state the current one, as if it were followed."""
    session = import_module(f"{MODULE}.runs.session")
    running = import_module(f"{MODULE}.runs.running")
    run = import_module("splat_engine.formats.run").RunDirectory(Path("/tmp/monkey.splatfit/run"))
    running.forget()
    made = session.Session(run, None)
    made.state = session.State[state]
    for name, value in report.items():
        setattr(made.report, name, value)
    running.begin(running.Running(made, "Scene"))


def measure_draws(window, rounds=20):
    """Prints how many milliseconds our panels take of one draw of the tab, with Blender's own layouts."""
    spent, per_draw = [], []
    panels = [panel for panel in import_module(f"{MODULE}.panels").CLASSES if "_PT_" in panel.__name__]
    draws = [panel.draw for panel in panels]
    for panel, draw in zip(panels, draws, strict=True):
        panel.draw = timed(draw, spent)
    for _ in range(rounds):
        spent.clear()
        window.sidebar.tag_redraw()
        yield from window.settle(2)
        per_draw.append(1000 * sum(spent))
    for panel, draw in zip(panels, draws, strict=True):
        panel.draw = draw
    drawn = sorted(filter(None, per_draw))
    say = f"{drawn[0]:.2f} to {drawn[-1]:.2f} ms, {drawn[len(drawn) // 2]:.2f} in the middle"
    print(f"scenario: a draw of the tab takes {say}", flush=True)


def timed(draw, spent):
    """Returns a panel's draw that notes its seconds; of two arguments, for Blender counts them."""

    def draw_timed(self, context):
        since_s = time.perf_counter()
        draw(self, context)
        spent.append(time.perf_counter() - since_s)

    return draw_timed


def scroll_down(window):
    """Scrolls the sidebar to its end."""
    x, y = window.sidebar.x + 100, window.sidebar.y + window.sidebar.height // 2
    yield from window.move(x, y)
    for _ in range(40):
        window.window.event_simulate(type="WHEELDOWNMOUSE", value="PRESS", x=x, y=y)
        yield
    yield from window.settle()


def scenario(window):
    """Looks at every state; a click on Show Cameras shows the rig and another one takes it away."""
    build_scene()
    yield from make_room(window)
    yield from window.open_tab()
    overlay = import_module(f"{MODULE}.display.rig_overlay")
    chosen = bpy.context.scene.splatfit
    yield from window.settle(20)
    yield from window.picture("at-rest")

    chosen.quality = "draft"
    chosen.capture.resolution = 128
    yield from window.click("splatfit.show_rig(")
    assert overlay.shown(bpy.context.scene) is not None
    yield from window.settle(10)
    yield from window.picture("cameras")
    chosen.capture.rig = "ring"
    yield from window.settle(10)
    yield from window.picture("ring-at-once")
    yield from window.click("splatfit.test_view(")
    yield from window.settle(20)
    yield from window.picture("test-view")

    yield from window.click("splatfit.show_rig(")
    assert overlay.shown(bpy.context.scene) is None
    chosen.quality = "custom"
    chosen.target_kind, chosen.target_object = "OBJECT", bpy.data.objects["Suzanne"]
    yield from window.settle(20)
    yield from window.picture("custom")

    chosen.quality, chosen.target_kind = "standard", "SCENE"
    import_module(f"{MODULE}.display.test_view")._tested.clear()  # its picture takes room
    mesh = bpy.data.objects["Suzanne"].data
    many = [bpy.data.objects.new(f"Copy {number}", mesh) for number in range(1000)]
    for item in many:
        bpy.context.scene.collection.objects.link(item)
    yield from window.settle(40)
    yield from measure_draws(window)
    bpy.data.batch_remove(many)

    curve = [
        (step, 0.25 * exp(-step / 400) + 0.02, 34 - 20 * exp(-step / 500)) for step in range(1, 1240, 10)
    ]
    facts = {"step": 1240, "steps": 2000, "psnr_db": curve[-1][2], "splats": 143200, "seconds_left": 47.0}
    pretend("FITTING", phase="Fitting splats", curve=curve, **facts)
    yield from window.settle(20)
    yield from window.picture("fitting")
    yield from measure_draws(window)
    pretend("CAPTURING", phase="Rendering the views", step=31, steps=100, seconds_left=130.0)
    yield from window.settle(20)
    yield from window.picture("rendering")
    times = {"capture": 190.0, "fit": 75.0}
    pretend("FINISHED", test_psnr_db=32.1, splats=143200, seconds=times)
    yield from window.settle(20)
    yield from window.picture("finished")
    import_module(f"{MODULE}.runs.running").forget()
    yield from window.settle(20)
    settings = import_module(f"{MODULE}.panels.settings")
    yield from open_lowest(window, settings.SPLATFIT_PT_advanced)
    yield from window.settle(10)
    yield from window.picture("advanced")
    yield from scroll_down(window)
    yield from open_lowest(window, bpy.types.SPLATFIT_PT_tidy)
    yield from scroll_down(window)
    yield from window.picture("clean-up")

    yield from window.move(window.sidebar.x - 200, window.sidebar.y + 300)
    with bpy.context.temp_override(window=window.window, area=window.area, region=window.sidebar):
        bpy.ops.wm.call_panel(name="SPLATFIT_PT_presets", keep_open=True)
    yield from window.settle(10)
    yield from window.picture("presets")
