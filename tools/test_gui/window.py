"""Runs inside Blender with a window: installs the extension, then goes through a scenario, one step after each draw.

A scenario is a function ``scenario(window)`` that yields whenever Blender should go on: ``yield`` for one round, or
``yield from`` one of the window's methods. It fails by an exception. Buttons are found as a person finds them, by passing over them with
the mouse: Blender tells of the button under it which operator or property it is (its own "Copy Python Command" and "Copy
Data Path"), so no position is written down anywhere.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bpy
from mathutils import Vector

HERE = Path(__file__).resolve().parent
MODULE = "bl_ext.user_default.splatfit"
_SINCE_S = time.monotonic()
_ROUND_S = 0.05
_SETTLED_ROUNDS = 4
"""Rounds after which Blender has taken an event and drawn its result, under llvmpipe."""
_HANG_S = 60
_ROW_PX = 16
"""Step of the search for a button: less than a row, which has 20."""
_WHEEL_STEPS = 8
"""Of about 40 pixels."""
_COLUMNS = (0.3, 0.65)
"""Where in the sidebar's width a search passes: two buttons in a row are the most."""

Steps = Iterator[None]


def say(text: str) -> None:
    """Notes in Blender's log where the scenario is, and how long it has taken so far."""
    print(f"scenario, {time.monotonic() - _SINCE_S:.0f} s: {text}", flush=True)


class Window:
    """The one window, with its 3D viewport and the sidebar in it.

    Attributes:
        seen: What the buttons are that the last search has passed over.
        engine_python: The engine's Python, of this checkout.
    """

    def __init__(self, engine_python: str) -> None:
        self.engine_python = engine_python
        self.pictures = 0
        self.seen: list[str] = []
        self._places: dict[str, tuple[int, int]] = {}

    @property
    def window(self) -> Any:
        """Blender's window."""
        return bpy.context.window_manager.windows[0]

    @property
    def area(self) -> Any:
        """The 3D viewport."""
        return max(
            (area for area in self.window.screen.areas if area.type == "VIEW_3D"), key=lambda area: area.width
        )

    @property
    def sidebar(self) -> Any:
        """The viewport's sidebar."""
        return next(region for region in self.area.regions if region.type == "UI")

    def settle(self, rounds: int = _SETTLED_ROUNDS) -> Steps:
        """Lets Blender handle its events and draw."""
        self.area.tag_redraw()
        for _ in range(rounds):
            yield

    def wait_until(self, is_so: Callable[[], Any], what: str, rounds: int = 2000) -> Steps:
        """Waits for something to become so.

        Raises:
            AssertionError: It does not within that many rounds.
        """
        for _ in range(rounds):
            if is_so():
                return
            yield
        raise AssertionError(f"waited in vain for {what}")

    def open_tab(self) -> Steps:
        """Opens the sidebar at the extension's tab."""
        say("opening the tab")
        self.area.spaces.active.show_region_ui = True
        yield from self.settle()
        self.sidebar.active_panel_category = "Splatfit"
        yield from self.settle()

    def picture(self, name: str) -> Steps:
        """Takes a picture of the screen."""
        say(f"picture {name}")
        yield from self.settle()
        self.pictures += 1
        path = HERE / "pictures" / f"{self.pictures:02d}-{name}.xwd"
        subprocess.run(["xwd", "-root", "-silent", "-out", str(path)], check=True)

    def move(self, x: int, y: int) -> Steps:
        """Moves the mouse. Blender itself draws what that changes; the viewport, which takes longest, is left alone."""
        self.window.event_simulate(type="MOUSEMOVE", value="NOTHING", x=x, y=y)
        yield
        yield

    def under_mouse(self) -> str:
        """Returns the operator's call or the property's path of the button under the mouse; "" for none."""
        found = ""
        with bpy.context.temp_override(window=self.window, area=self.area, region=self.sidebar):
            for copy in (
                bpy.ops.ui.copy_python_command_button,
                lambda: bpy.ops.ui.copy_data_path_button(full_path=True),
            ):
                bpy.context.window_manager.clipboard = ""
                try:
                    copy()
                except RuntimeError:  # the button is none of that kind
                    continue
                found = found or bpy.context.window_manager.clipboard
        return str(found)

    def buttons(self) -> Iterator[Any]:
        """Yields, between rounds, (what the button is, x, y) down the sidebar; None where there is none new."""
        region = self.sidebar
        last = dict.fromkeys(_COLUMNS, "")
        for y in range(region.y + region.height - 4, region.y, -_ROW_PX):
            for column in _COLUMNS:
                x = region.x + int(region.width * column)
                yield from ((None, 0, 0) for _ in self.move(x, y))
                found = self.under_mouse()
                if found and found not in last.values():
                    yield found, x, y
                last[column] = found

    def click(self, wanted: str) -> Steps:
        """Clicks the button whose operator or property has ``wanted`` in it, such as ``splatfit.fit(``.

        It is looked for where an earlier search has passed over it, then from the top, then further down.

        Raises:
            AssertionError: There is no such button in the sidebar.
        """
        say(f"looking for {wanted}")
        for x, y in [place for name, place in self._places.items() if wanted in name]:
            yield from self.move(x, y)
            if wanted in self.under_mouse():
                yield from self.click_at(x, y)
                return
        self.seen = []
        for is_further_down in (False, True):
            if is_further_down:
                yield from self.scroll_down()
            for found, x, y in self.buttons():
                if found is None:
                    yield
                    continue
                self.seen.append(found)
                self._places[found] = x, y
                if wanted in found:
                    yield from self.click_at(x, y)
                    return
        raise AssertionError(f"the sidebar has no {wanted}; it has {self.seen}")

    def scroll_down(self) -> Steps:
        """Turns the wheel over the sidebar, by about half of its height."""
        region = self.sidebar
        x, y = region.x + region.width // 2, region.y + region.height // 2
        yield from self.move(x, y)
        for _ in range(_WHEEL_STEPS):
            self.window.event_simulate(type="WHEELDOWNMOUSE", value="PRESS", x=x, y=y)
            yield from self.settle(1)
        yield from self.settle()

    def click_at(self, x: int, y: int) -> Steps:
        """Presses and releases the left button."""
        yield from self.move(x, y)
        for value in ("PRESS", "RELEASE"):
            self.window.event_simulate(type="LEFTMOUSE", value=value, x=x, y=y)
            yield from self.settle(2)
        yield from self.settle()

    def look_from(self, location: tuple[float, float, float], target: tuple[float, float, float]) -> None:
        """Puts the viewport's eye at a place, looking at another."""
        offset = Vector(target) - Vector(location)
        view = self.area.spaces.active.region_3d
        view.view_location, view.view_distance = target, offset.length
        view.view_rotation = offset.to_track_quat("-Z", "Y")

    def key(self, name: str) -> Steps:
        """Presses and releases a key, such as ``"ESC"``, over the viewport."""
        x, y = self.area.x + self.area.width // 4, self.area.y + self.area.height // 2
        yield from self.move(x, y)
        for value in ("PRESS", "RELEASE"):
            self.window.event_simulate(type=name, value=value, x=x, y=y)
            yield from self.settle(2)


def install(window: Window, archive: str) -> Steps:
    """Installs and enables the extension, once Blender has drawn."""
    say("waiting for the first draws")
    yield from window.settle(20)  # they build the interface
    say(f"installing {archive}")
    bpy.ops.extensions.package_install_files(filepath=archive, repo="user_default", enable_on_install=True)
    if MODULE not in bpy.context.preferences.addons:
        raise AssertionError("the extension is not enabled after its installation")
    say("installed")
    yield from window.settle()


def scenario_steps(window: Window, archive: str) -> Steps:
    """Yields through the installation and the scenario."""
    yield from install(window, archive)
    spec = importlib.util.spec_from_file_location("scenario", HERE / "scenario.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield from module.scenario(window)


def end(failure: str) -> None:
    """Writes the answer and leaves at once."""
    answer = {"ok": not failure, "failure": failure}
    (HERE / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
    os._exit(0 if not failure else 3)


def main() -> None:
    """Follows the scenario with a timer, so that Blender handles its events in between."""
    bpy.context.preferences.view.show_splash = False  # before there is a window
    sys.path.insert(0, str(HERE))  # scenarios share modules
    task = json.loads((HERE / "task.json").read_text(encoding="utf-8"))
    window = Window(task["engine_python"])
    steps = scenario_steps(window, task["archive"])

    def go_on() -> float:
        faulthandler.dump_traceback_later(_HANG_S)  # into the log, should Blender not come back
        try:
            next(steps)
        except StopIteration:
            end("")
        except Exception:
            end(traceback.format_exc())
        return _ROUND_S

    bpy.app.timers.register(go_on, first_interval=1.0, persistent=True)  # a scenario may open another file


main()
