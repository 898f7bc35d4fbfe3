"""tools/build_extension: the built zip, installed into a clean profile, not the checkout."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tomllib

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "build_extension"

CHECK = """
import json, sys
import bpy
archive, answer = sys.argv[1:]
bpy.ops.extensions.package_install_files(filepath=archive, repo="user_default", enable_on_install=True)
import splat_engine
from splat_engine import formats, native
name = "bl_ext.user_default.splatfit"
module = sys.modules[name]
found = {
    "enabled": name in bpy.context.preferences.addons,
    "addon": module.__file__,
    "engine": splat_engine.__file__,
    "abi": native.abi_version(),
    "library": str(native.library_path()),
    "panel": hasattr(bpy.types, "SPLATFIT_PT_main"),
    "settings": bpy.context.scene.splatfit.fit.steps,
    "torch": "torch" in sys.modules,
    "path": sys.path,
}
from bl_ext.user_default.splatfit import package
from bl_ext.user_default.splatfit.settings import preferences
found["package"], found["version"] = package.NAME, package.version()
bpy.context.preferences.addons[name].preferences.engine_python = "/some/python"
found["engine_python"] = preferences.engine_python()
bpy.ops.preferences.addon_disable(module=name)
found["panel_after"] = hasattr(bpy.types, "SPLATFIT_PT_main")
open(answer, "w").write(json.dumps(found))
"""


@pytest.fixture(scope="module")
def archive() -> Path:
    """The zip in build/extension: made anew if a source is newer."""
    engine = ROOT / ".venv" / "engine" / "bin" / "python"
    if not engine.is_file():
        pytest.skip("the wheel is built by .venv/engine, which this checkout lacks")
    command = [str(engine), str(TOOL), "--if-changed", "--out", str(ROOT / "build" / "extension")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def test_zip_holds_what_blender_wants(archive):
    """Manifest and package at the root, the wheel named in the manifest, the licence; no test, cache or checkout file."""
    with zipfile.ZipFile(archive) as zipped:
        names = set(zipped.namelist())
        manifest = tomllib.loads(zipped.read("blender_manifest.toml").decode())
    (wheel,) = [name for name in names if name.endswith(".whl")]
    assert manifest["wheels"] == [f"./{wheel}"] and wheel.startswith("wheels/splat_engine-")
    (platform,) = manifest["platforms"]
    assert archive.name == f"splatfit-{manifest['version']}-{platform.replace('-', '_')}.zip"
    assert {"__init__.py", "LICENSE", "panels/main.py", "operators/fitting.py", "capture/cameras.py"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("addon/", "tests/"))]
    assert "build" not in manifest


@pytest.fixture(scope="module")
def blender_ext_path() -> Path:
    """blender_ext.py, as shipped with this very Blender."""
    import bpy

    (tool,) = Path(bpy.utils.system_resource("SCRIPTS")).glob("addons_core/bl_pkg/cli/blender_ext.py")
    return tool


@pytest.fixture(scope="module")
def blender_ext(blender_ext_path) -> ModuleType:
    """The same as a module."""
    spec = importlib.util.spec_from_file_location("blender_ext", blender_ext_path)
    module = sys.modules["blender_ext"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_blenders_own_tool_accepts_it(archive, blender_ext_path):
    """blender_ext.py validates the zip."""
    command = [sys.executable, str(blender_ext_path), "validate", str(archive)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_same_sources_same_zip(archive, tmp_path):
    """Built twice around the same wheel, the zip is the same to the byte."""
    with zipfile.ZipFile(archive) as zipped:
        (name,) = [item for item in zipped.namelist() if item.endswith(".whl")]
        wheel = Path(zipped.extract(name, tmp_path))
    made = []
    for folder in ("a", "b"):
        command = [sys.executable, str(TOOL), "--wheel", str(wheel), "--out", str(tmp_path / folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        made.append(Path(done.stdout.strip()).read_bytes())
    assert made[0] == made[1]


WHEEL_TAGS = {
    "linux-x64": "manylinux_2_17_x86_64",
    "linux-arm64": "manylinux_2_17_aarch64",
    "windows-x64": "win_amd64",
    "macos-arm64": "macosx_11_0_arm64",
    "macos-x64": "macosx_11_0_x86_64",
}
"""What tests/native/test_build.py has as the tags of all platforms."""


@pytest.mark.parametrize("platform", WHEEL_TAGS)
def test_one_zip_a_platform(platform, tmp_path, blender_ext):
    """Named as `extension build --split-platforms` does it, for one platform, with a wheel that Blender takes for it."""
    wheel = tmp_path / f"splat_engine-0.1.0-py3-none-{WHEEL_TAGS[platform]}.whl"
    wheel.write_bytes(b"")
    command = [sys.executable, str(TOOL), "--wheel", str(wheel), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(made) as zipped:
        manifest = tomllib.loads(zipped.read("blender_manifest.toml").decode())
        wheels = [name for name in zipped.namelist() if name.startswith("wheels/")]
    assert manifest["platforms"] == [platform] and manifest["wheels"] == [f"./wheels/{wheel.name}"]
    assert wheels == [f"wheels/{wheel.name}"]
    assert made.name == f"splatfit-{manifest['version']}-{platform.replace('-', '_')}.zip"
    assert blender_ext.blender_platforms_from_wheel_platform(WHEEL_TAGS[platform]) == [platform]


def test_an_unknown_platform_is_a_wrong_command_line(tmp_path):
    """With the names that there are."""
    command = [sys.executable, str(TOOL), "--platform", "amiga-m68k", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "windows-x64" in done.stderr and not (tmp_path / "out").exists()


def test_wheel_that_does_not_fit_is_refused(tmp_path):
    """A wheel bound to one Python, or to no platform Blender knows, is an error in words and leaves no zip."""
    for name in ("splat_engine-0.1.0-cp311-cp311-linux_x86_64.whl", "splat_engine-0.1.0-py3-none-any.whl"):
        (tmp_path / name).touch()
        command = [sys.executable, str(TOOL), "--wheel", str(tmp_path / name), "--out", str(tmp_path / "out")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1 and name in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_installed_into_a_clean_profile(archive, tmp_path):
    """Installed and enabled in a new profile it registers, uses the wheel's engine, and needs no torch."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BLENDER"))}
    answer = tmp_path / "answer.json"
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(archive), str(answer)],
        env={**clean, "BLENDER_USER_RESOURCES": str(tmp_path / "profile")},
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert answer.is_file(), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(answer.read_text())
    profile = str((tmp_path / "profile").resolve())
    assert found["enabled"] and found["panel"] and not found["panel_after"]
    for name in ("addon", "engine", "library"):
        assert str(Path(found[name]).resolve()).startswith(profile), f"{name} is {found[name]}"
    assert not any(str(ROOT / "splat_engine") in path or path == str(ROOT) for path in found["path"])
    assert found["abi"] >= 1 and found["settings"] > 0 and not found["torch"]
    assert found["package"] == "bl_ext.user_default.splatfit" and found["engine_python"] == "/some/python"
    assert archive.name.startswith(f"splatfit-{found['version']}-")
