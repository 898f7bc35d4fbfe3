"""Forward, backward and step of the bench inputs on a card; each kernel's time, and its bytes a second."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from splat_engine import native
from splat_engine.fit.place import Place
from splat_engine.formats.conventions import Formation
from splat_engine.formats.errors import UserError
from splat_engine.ops import RasterPass
from splat_engine.ops._cuda.launch import Launcher
from splat_engine.ops._cuda.rasterize import Saved
from tools.bench.inputs import CASES, BenchInput, make_input
from tools.bench.training import make_workload
from tools.gpu.clock import copy_bytes_per_s, elapsed_ms, finish, kernel_clock, least_ms
from tools.gpu.costs import COSTS, OTHERS, Cost, Sizes, kernel_of, step_floor_ms
from tools.gpu.sizes import on_screen, sizes_of

FORMATION: Formation = "classic"
"""The one that other engines have."""
BIG_PX = (1600, 1066)
INPUTS: dict[str, tuple[int, int, int]] = {
    **{name: (count, size, size) for name, (count, size) in CASES.items()},
    "1M_1600x1066": (1_000_000, *BIG_PX),
    "3M_1600x1066": (3_000_000, *BIG_PX),
}
"""Name to splats, width and height."""
TINY_INPUTS = {"tiny": (200, 40, 24)}
"""For a run that is emulated."""
COPY_BYTES, TINY_COPY_BYTES = 1 << 30, 1 << 20
STEPS_IN_A_ROW = 4
"""As in training, where the processor runs ahead of the card."""


def made(size: tuple[int, int, int]) -> BenchInput:
    """Returns an input of ``INPUTS``."""
    count, width, height = size
    return make_input(count, width, height_px=height)


def measure(
    inputs: dict[str, tuple[int, int, int]],
    place: Place,
    launcher: Launcher,
    *,
    seconds: float,
    emulated: bool,
) -> dict[str, Any]:
    """Measures inputs one after another; one that fails says why and lets the others be measured.

    Args:
        inputs: Name to splats, width and height.
        place: The card, or the processor while it is emulated.
        launcher: Runs the kernels.
        seconds: Of rounds for each figure.
        emulated: Whether there is no card.

    Returns:
        "copy_gb_per_s", and "inputs": name to figures, or to {"failed": text}.
    """
    copy = copy_bytes_per_s(place.device, TINY_COPY_BYTES if emulated else COPY_BYTES, seconds=seconds)
    found: dict[str, Any] = {}
    for name, size in inputs.items():
        start_s = time.perf_counter()
        try:
            found[name] = _figures(made(size), place, launcher, copy, seconds)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told, and the next input is measured
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
        found[name]["seconds"] = time.perf_counter() - start_s
        if not emulated:
            torch.cuda.empty_cache()
    failed = [name for name, figures in found.items() if "failed" in figures]
    return {"copy_gb_per_s": copy / 1e9, "inputs": found, "failed_inputs": failed}


def _figures(
    given: BenchInput, place: Place, launcher: Launcher, copy_rate: float, seconds: float
) -> dict[str, Any]:
    sizes = _sizes(given, place.device)
    work = make_workload(given, FORMATION, "cuda", place.device)
    work.step()
    finish(place.device)
    with kernel_clock(launcher, place.device) as clock:
        work.step()
        times = {kernel_of(entry): value for entry, value in clock.milliseconds().items()}
    halves = _halves(work.forward, work.backward, place.device, seconds)
    return {
        "splats": len(given.splats),
        "pairs": sizes and sizes.pairs,
        **halves,
        "step_ms": least_ms(work.step, place.device, seconds=seconds, in_a_row=STEPS_IN_A_ROW),
        "step_floor_ms": sizes and step_floor_ms(sizes),
        "kernels": {name: _rates(value, _cost(name, sizes), copy_rate) for name, value in times.items()},
        "own_order": _own_order(given, place, launcher, sizes, copy_rate, seconds),
        "peak_memory_mb": _peak_memory_mb(place.device),
    }


def _own_order(
    given: BenchInput,
    place: Place,
    launcher: Launcher,
    sizes: Sizes | None,
    copy_rate: float,
    seconds: float,
) -> dict[str, Any]:
    """Times the rasterizer where each pixel has its own order, beside the same splats in the order of their centres."""
    device, camera = place.device, given.camera
    inputs, depths, slopes = on_screen(given, "blender", own_order=True)
    assert slopes is not None
    means2d, conics, opacities, colors, depths, there = (
        value.to(device) for value in (*inputs, depths, slopes)
    )
    v_image = torch.from_numpy(given.image_cotangent).to(device)

    def drawn(depth_slopes: Tensor | None) -> RasterPass:
        size = (camera.width, camera.height)
        return RasterPass(
            means2d, conics, opacities, colors, depths, *size, depth_slopes=depth_slopes, backend="cuda"
        )

    def backward(kept: RasterPass) -> object:
        return kept.backward(v_image, None)

    with kernel_clock(launcher, device) as clock:
        kept = drawn(there)
        backward(kept)
        times = {kernel_of(entry): value for entry, value in clock.milliseconds().items()}
    assert isinstance(kept._context, Saved) and kept._context.rays is not None
    by_centers = _halves(lambda: drawn(None), backward, device, seconds)
    return {
        **_halves(lambda: drawn(there), backward, device, seconds),
        **{f"by_centers_{name}": value for name, value in by_centers.items()},
        "tiles_scanned_again": float((kept._context.rays.scans > 1).double().mean()),
        "kernels": {name: _rates(value, _cost(name, sizes), copy_rate) for name, value in times.items()},
    }


def _sizes(given: BenchInput, device: torch.device) -> Sizes | None:
    """What there is to do; None without the processor's library, which counts some of it."""
    try:
        native.load_library()
    except UserError:
        return None
    return sizes_of(given, FORMATION, device, draws=True)


def _cost(kernel: str, sizes: Sizes | None) -> Cost | None:
    count = COSTS.get(kernel) or OTHERS.get(kernel)
    return None if count is None or sizes is None else count(sizes)


def _halves(
    forward: Callable[[], Any], backward: Callable[[Any], object], device: torch.device, seconds: float
) -> dict[str, float]:
    """Least forward_ms and backward_ms, the backward without the forward that it belongs to."""
    forwards: list[float] = []
    backwards: list[float] = []
    end_s = time.perf_counter() + seconds
    while len(forwards) < 5 or time.perf_counter() < end_s:
        drawn: list[Any] = []
        forwards.append(elapsed_ms(lambda kept=drawn: kept.append(forward()), device))  # type: ignore[misc]
        backwards.append(elapsed_ms(lambda kept=drawn: backward(kept.pop()), device))  # type: ignore[misc]
    return {"forward_ms": min(forwards[2:]), "backward_ms": min(backwards[2:])}


def _rates(milliseconds: float, cost: Cost | None, copy_rate: float) -> dict[str, float]:
    if cost is None or milliseconds <= 0:
        return {"ms": milliseconds}
    rate = 1e3 * cost.bytes / milliseconds
    return {
        "ms": milliseconds,
        "gb_per_s": rate / 1e9,
        "share_of_copy": rate / copy_rate,
        "gflop_per_s": cost.operations / milliseconds / 1e6,
    }


def _peak_memory_mb(device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    peak = torch.cuda.max_memory_allocated(device) / 2**20
    torch.cuda.reset_peak_memory_stats(device)
    return peak


def has_gsplat() -> bool:
    """Tells whether the other engine is installed."""
    return importlib.util.find_spec("gsplat") is not None


def measure_gsplat(
    inputs: dict[str, tuple[int, int, int]], device: torch.device, *, seconds: float
) -> dict[str, Any]:
    """Times forward and backward of the same inputs by gsplat (its function ``rasterization``), where it is installed."""
    return {name: _gsplat_figures(made(size), device, seconds) for name, size in inputs.items()}


def _gsplat_figures(given: BenchInput, device: torch.device, seconds: float) -> dict[str, float]:
    from gsplat import rasterization  # not above: it is not ours, and rarely there

    def there(array: Any) -> torch.Tensor:
        return torch.from_numpy(array).float().to(device)

    splats, camera = given.splats, given.camera
    names = ("means", "quats_wxyz", "log_scales", "opacity_logits", "sh")
    leaves = [there(getattr(splats, name)).requires_grad_() for name in names]
    fx, fy, cx, cy = camera.intrinsics.tolist()
    intrinsics = torch.tensor([[[fx, 0, cx], [0, fy, cy], [0, 0, 1]]], device=device)
    viewmat, cotangent = there(camera.viewmat)[None], there(given.image_cotangent)[None]

    def forward() -> torch.Tensor:
        means, quats, log_scales, logits, sh = leaves
        image: torch.Tensor = rasterization(
            means, quats, log_scales.exp(), logits.sigmoid(), sh, viewmat, intrinsics, camera.width, camera.height,
            sh_degree=3, packed=False,
        )[0]  # fmt: skip
        return image

    return _halves(forward, lambda image: torch.autograd.grad([image], leaves, [cotangent]), device, seconds)
