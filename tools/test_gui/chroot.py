"""Debian sid with Blender and a virtual screen, in a folder: the one Blender with a window that can be had from packages.

Built once, in minutes, and kept outside the clone: ``$SPLATFIT_TEST_GUI``, else ``~/.cache/splatfit/test_gui``. It is built
aside and renamed, so a build that broke off is never taken for a whole one. Needs root, debootstrap and Debian's packages.

Blender in the chroot starts the engine of this checkout outside of it: the machine's own root is mounted at ``/host``, and one
folder is at the same path on both sides. The mounts are private to the test: they end with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"
CACHE_VARIABLE = "SPLATFIT_TEST_GUI"
PACKAGES = (
    "blender",
    "python3-numpy",
    "python3-requests",  # this and the next two: what Blender's own extensions import
    "python3-zstandard",
    "python3-cattr",
    "xvfb",
    "xauth",
    "libgl1-mesa-dri",
    "libegl1",
    "x11-apps",  # xwd
)


class GuiTestError(Exception):
    """Something that the person at the keyboard has to mend; the text says what and how."""


def cache_folder() -> Path:
    """Returns where the chroot is kept."""
    chosen = os.environ.get(CACHE_VARIABLE)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else caches / "splatfit" / "test_gui"


def make_chroot(cache: Path) -> Path:
    """Returns the chroot's folder, built if it is not there.

    Raises:
        GuiTestError: It cannot be built here.
    """
    folder = cache / "sid"
    if folder.is_dir():
        return folder
    if os.geteuid() != 0:
        raise GuiTestError("A chroot is made and entered by root alone: run this as root.")
    if shutil.which("debootstrap") is None:
        raise GuiTestError("debootstrap is missing: apt-get install debootstrap")
    part = cache / "sid.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    print(f"building Debian sid with Blender in {folder}: some minutes, 1.7 GB", flush=True)
    _run(["debootstrap", "--variant=minbase", "--include=ca-certificates", "sid", str(part), MIRROR])
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *PACKAGES]
    _run(["chroot", str(part), "env", "DEBIAN_FRONTEND=noninteractive", *install])
    part.rename(folder)
    return folder


def entering(chroot: Path, shared: Path, command: list[str]) -> list[str]:
    """Returns the command line that runs a command in the chroot, with the machine at ``/host``.

    Args:
        chroot: Its folder.
        shared: A folder of the machine that is at the same path in the chroot.
        command: What is run there.
    """
    inside = chroot / shared.relative_to("/")
    host = chroot / "host"
    for folder in (inside, host):
        folder.mkdir(parents=True, exist_ok=True)
    script = 'mount --rbind / "$1" && mount --bind "$2" "$3" && shift 3 && exec "$@"'
    mounting = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    return [*mounting, str(host), str(shared), str(inside), "chroot", str(chroot), *command]


def write_engine(script: Path, python: Path, checkout: Path) -> None:
    """Writes a program for the chroot that is the engine's Python outside of it."""
    text = f'#!/bin/sh\nexec chroot /host env "PYTHONPATH={checkout}" "{python}" "$@"\n'
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise GuiTestError(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")
