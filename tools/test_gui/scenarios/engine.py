"""The engine's set-up in a window, with a stand-in for uv: started, cancelled while it installs, started again, ready."""

import os
import shutil
from importlib import import_module
from pathlib import Path

import bpy

MODULE = "bl_ext.user_default.splatfit"


def scenario(window):
    """Presses Set Up, Cancel, and Set Up again; the network is not asked for anything."""
    engine_jobs = import_module(f"{MODULE}.engine.engine_jobs")
    version = import_module(f"{MODULE}.engine.setup.plan").UV_VERSION
    bpy.context.preferences.system.use_online_access = True
    place = Path(bpy.utils.extension_path_user(MODULE, path="engine", create=True))
    shutil.copyfile(Path(__file__).with_name("fake_uv.py"), place / f"uv-{version}")
    (place / f"uv-{version}").chmod(0o755)
    log = place / "setup.log"

    os.environ["FAKE_UV"] = "install:hang"
    yield from window.open_tab()
    yield from window.click("splatfit.set_up_engine(")
    yield from window.wait_until(lambda: log.is_file() and "hanging" in log.read_text(), "the installation")
    yield from window.settle(20)  # the timer that shows the progress has come
    yield from window.picture("installing")
    yield from window.click("splatfit.cancel_engine_setup(")
    yield from window.wait_until(lambda: not engine_jobs.is_busy(), "the end after Cancel")
    assert engine_jobs.current().is_cancelled and engine_jobs.missing(), "cancelled, it must not be ready"
    yield from window.settle(20)
    yield from window.picture("cancelled")

    os.environ["FAKE_UV"] = ""
    yield from window.click("splatfit.set_up_engine(")
    yield from window.wait_until(lambda: not engine_jobs.is_busy(), "the end of the set-up")
    assert engine_jobs.missing() == "", engine_jobs.missing()
    yield from window.settle(20)
    yield from window.picture("ready")
