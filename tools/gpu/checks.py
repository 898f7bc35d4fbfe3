"""The parts of gpu_check: each is a function that returns figures, or raises ``Failed`` or ``Skipped`` in words."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from splat_engine.fit.place import Place
from splat_engine.ops._cuda.launch import Launcher
from tools.gpu import costs, speed
from tools.gpu.sizes import sizes_of

ROOT = Path(__file__).resolve().parents[2]
PSNR_LEAST_DB = 31.0
"""Of the fit in memory, whose processor's result is 33.0 dB."""
DATASET_PSNR_LEAST_DB = 36.0
"""Of suzanne256 after 1000 steps, with which the processor reaches 39.6."""
OPTIONAL = ("OpenEXR", "PIL", "scipy", "tqdm", "hypothesis", "gsplat", "cuda.core", "cuda.bindings")


class Failed(Exception):
    """A part found something wrong; figures that it has all the same come along."""

    def __init__(self, text: str, figures: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.figures = figures or {}


class Skipped(Exception):
    """A part cannot be done here, and that is no fault."""


@dataclass(frozen=True)
class Check:
    """What all parts are told.

    Attributes:
        place: The card; while it is emulated, the processor.
        launcher: Runs the kernels.
        emulated: Whether there is no card.
        dataset: To be fitted.
        seconds: Of rounds for each figure of speed.
    """

    place: Place
    launcher: Launcher
    emulated: bool
    dataset: Path | None
    seconds: float


def machine(check: Check) -> dict[str, Any]:
    """Returns what this machine is, and what is not installed on it."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda_of_torch": torch.version.cuda,
        "cores": os.cpu_count(),
        "missing": [name for name in OPTIONAL if not _is_installed(name)],
    }
    if check.place.device.type == "cuda":
        card = torch.cuda.get_device_properties(check.place.device)
        facts |= {"card": card.name, "capability": f"{card.major}.{card.minor}"}
        facts |= {"memory_gib": card.total_memory / 2**30, "multiprocessors": card.multi_processor_count}
    kernels = getattr(check.launcher, "_kernels", None)
    facts["kernels"] = getattr(kernels, "origin", "emulated")
    return facts


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    places = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": places, "OMP_WAIT_POLICY": "PASSIVE"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds)


def build() -> dict[str, Any]:
    """Builds the processor's library, if it does not stand: in its own process, before anything loads it."""
    standing = _run([sys.executable, "-c", "from splat_engine import native; native.load_library()"], 60)
    if standing.returncode == 0:
        return {"said": "it stands"}
    done = _run([sys.executable, "-m", "splat_engine.native.build"], 240)
    said = (done.stdout + done.stderr)[-2000:].strip()
    if done.returncode:
        raise Failed(said)
    return {"said": said.splitlines()[-1]}


def tests(check: Check) -> dict[str, Any]:
    """Runs the tests that need a card; emulated, those of one file that stand in for them."""
    folder = ROOT / "tests" / "cuda"
    chosen = [path for path in sorted(folder.glob("test_*.py")) if "needs_cuda" in path.read_text()]
    only = ["-k", "emulated and test_a_fit"] if check.emulated else ["-m", "needs_cuda"]
    with tempfile.TemporaryDirectory() as made:
        report = Path(made) / "report.xml"
        # Above this folder a conftest wants hypothesis, which a bare machine lacks.
        options = ["-q", "-p", "no:cacheprovider", f"--confcutdir={folder}", f"--junitxml={report}", *only]
        done = _run([sys.executable, "-m", "pytest", *options, *map(str, chosen)], 200)
        if not report.is_file():
            raise Failed((done.stdout + done.stderr)[-2000:])
        figures, failures = _read(ElementTree.parse(report))
    if failures or done.returncode or not figures["passed"]:
        raise Failed("\n".join(failures) or done.stdout[-2000:], figures)
    return figures


def _read(report: ElementTree.ElementTree[ElementTree.Element]) -> tuple[dict[str, Any], list[str]]:
    """Counts, skips and worst differences of pytest's report; and the failures in words."""
    passed, skipped, failures = 0, [], []
    worst: dict[str, float] = {}
    for case in report.getroot().iter("testcase"):
        broken = [*case.findall("failure"), *case.findall("error")]
        left_out = case.find("skipped")
        for item in broken:
            failures.append(f"{case.get('name')}: {item.get('message', '')[:400]}")
        if left_out is not None:
            skipped.append(f"{case.get('name')}: {left_out.get('message')}")
        passed += not broken and left_out is None
        for item in case.iter("property"):
            test = case.get("name", "").partition("[")[0]
            name = f"{test}: {item.get('name')}"
            worst[name] = max(worst.get(name, 0.0), float(item.get("value", "nan")))
    return {
        "passed": passed,
        "failed": len(failures),
        "skipped": skipped,
        "worst_differences": worst,
    }, failures


def fit(check: Check) -> dict[str, Any]:
    """Fits splats in memory."""
    from tools.gpu.fits import fit_in_memory

    if check.emulated:
        return fit_in_memory(check.place, splats=40, views=7, size_px=24, steps=3)
    figures = fit_in_memory(check.place, splats=4000, views=36, size_px=256, steps=600)
    if not figures["psnr"] >= PSNR_LEAST_DB:
        raise Failed(f"The fit reaches {figures['psnr']:.2f} dB, not {PSNR_LEAST_DB}.", figures)
    return figures


def dataset(check: Check) -> dict[str, Any]:
    """Fits a data set by the whole engine."""
    if check.dataset is None:
        raise Skipped("no --dataset, and ../shared/data/dataset/suzanne256 is not there")
    if check.emulated:
        raise Skipped("too large to be emulated")
    missing = [name for name in ("OpenEXR", "PIL", "scipy") if not _is_installed(name)]
    if missing:
        raise Skipped(f"not installed: {', '.join(missing)}")
    from tools.gpu.fits import fit_data_set

    figures = fit_data_set(check.place, check.dataset, steps=1000)
    if check.dataset.name == "suzanne256" and not figures["engine.psnr"] >= DATASET_PSNR_LEAST_DB:
        raise Failed(f"The fit reaches {figures['engine.psnr']:.2f} dB.", figures)
    return figures


def speeds(check: Check) -> dict[str, Any]:
    """Times the bench inputs."""
    inputs = speed.TINY_INPUTS if check.emulated else speed.INPUTS
    figures = speed.measure(
        inputs, check.place, check.launcher, seconds=check.seconds, emulated=check.emulated
    )
    if figures["failed_inputs"]:
        raise Failed(f"not measured: {', '.join(figures['failed_inputs'])}", figures)
    return figures


def gsplat(check: Check) -> dict[str, Any]:
    """Times the same inputs by gsplat."""
    if check.emulated or not speed.has_gsplat():
        raise Skipped("emulated" if check.emulated else "gsplat is not installed")
    return speed.measure_gsplat(speed.INPUTS, check.place.device, seconds=check.seconds)


def floor(
    inputs: dict[str, tuple[int, int, int]],
    device: torch.device,
    draws: Callable[[tuple[int, int, int]], bool],
) -> list[str]:
    """Returns the table of least times of inputs, counted on a card or emulated; ``draws`` as ``sizes_of`` has it."""
    sizes = {
        name: sizes_of(speed.made(size), speed.FORMATION, device, draws=draws(size))
        for name, size in inputs.items()
    }
    rows = [
        f"{name}: {s.splats} splats, {s.drawn} drawn, {s.pairs} pairs, {s.visited:.0f} visited, "
        f"{s.patch_buckets:.0f} buckets of patches, {s.evaluated:.0f} pixel-splat pairs, {s.pixels} px"
        for name, s in sizes.items()
    ]
    return [*rows, "", *costs.table(sizes)]
