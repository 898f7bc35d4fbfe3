"""Bytes and operations of each kernel, counted in its source, and the time below which no card can stay.

The figures are those in the heads of csrc/cuda/*.cu, for float: what goes to and from memory, without what the caches serve
again; additions, multiplications and the like, a power as 10 of them. Where a head gives a span, the larger figure is taken.
What torch does between the kernels stands here too, by the traffic of its radix sorts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FLOOR_BYTES_PER_S, FLOOR_OPERATIONS_PER_S = 4.8e12, 67e12
"""Of the card that floors are given for: an H200's memory, and its float32 units (NVIDIA's data sheet)."""
CHANNELS = 3
BUCKET = 32
PATCHES = 8
"""Splats of a bucket, and patches of a tile: csrc/cuda/raster.h."""


@dataclass(frozen=True)
class Sizes:
    """What one training step of one view goes through.

    Attributes:
        splats: N.
        drawn: Those that are not culled.
        pairs: Of a splat and a tile that it touches.
        visited: Pairs up to where all rays of their tile have ended.
        patch_buckets: Buckets entered, summed over all patches of 8x4 px.
        evaluated: Pixel-splat pairs whose alpha is computed.
        pixels: Of the view.
        tiles: Of 16x16 px.
        coefficients: SH coefficients a splat.
    """

    splats: int
    drawn: int
    pairs: int
    visited: float
    patch_buckets: float
    evaluated: float
    pixels: int
    tiles: int
    coefficients: int = 16


@dataclass(frozen=True)
class Cost:
    """What a kernel must do at least.

    Attributes:
        bytes: To and from memory.
        operations: Arithmetic.
    """

    bytes: float
    operations: float

    def floor_ms(
        self, bytes_per_s: float = FLOOR_BYTES_PER_S, operations_per_s: float = FLOOR_OPERATIONS_PER_S
    ) -> float:
        """Milliseconds that a card needs at least: for the bytes or the operations, whichever takes longer."""
        return 1e3 * max(self.bytes / bytes_per_s, self.operations / operations_per_s)


COSTS: dict[str, Callable[[Sizes], Cost]] = {
    # sh.cu: 44 bytes in, the coefficients of what is not culled, 48 out; 540 operations.
    "project_colors_fwd": lambda s: Cost(92 * s.splats + 12 * s.coefficients * s.drawn, 540 * s.splats),
    # tiles.cu: 28 + 4 C in, 68 out; 90 operations, and 40 a row of tiles, of which a splat has two or three.
    "prepare_splats": lambda s: Cost((96 + 4 * CHANNELS) * s.splats, 190 * s.splats),
    "sort of depths (torch)": lambda s: Cost(100 * s.splats, 0),
    # tiles.cu: 80 a splat in, 6 a pair out.
    "emit_pairs": lambda s: Cost(80 * s.splats + 6 * s.pairs, 100 * s.splats),
    "sort of pairs (torch)": lambda s: Cost(62 * s.pairs, 0),
    # tiles.cu: a bisection of the keys a tile.
    "tile_ranges": lambda s: Cost(60 * s.tiles, 100 * s.tiles),
    # rasterize_fwd.cu: 36 + 4 C and a checkpoint of 32 (1 + C) a visited pair, 4 C + 4 a pixel; 85 operations a visited pair,
    # 40 a pair and patch, 29 + 2 C an evaluated pixel.
    "rasterize_fwd": lambda s: Cost(
        (36 + 4 * CHANNELS + 32 * (1 + CHANNELS)) * s.visited + (4 * CHANNELS + 4) * s.pixels,
        (85 + 40 * PATCHES) * s.visited + (29 + 2 * CHANNELS) * s.evaluated,
    ),
    # photometric.cu: 73 bytes a pixel; 3 x 170 operations and 11.5 powers.
    "photometric_tiles": lambda s: Cost(73 * s.pixels, (3 * 170 + 115) * s.pixels),
    # photometric.cu: 77 bytes a pixel; 3 x 120 operations and 6 powers.
    "photometric_gradient": lambda s: Cost(77 * s.pixels, (3 * 120 + 60) * s.pixels),
    # photometric.cu: 16 bytes a tile of 32 x 22 px.
    "photometric_figures": lambda s: Cost(16 * s.pixels / 704, s.pixels / 100),
    "clear of sums (torch)": lambda s: Cost(64 * s.splats, 0),
    # rasterize_bwd.cu: 40 + 4 C a splat of a bucket and as much added, 4 (4 C + 3) a pixel of a patch and bucket; 40 operations
    # a splat, patch and bucket, 30 a splat and pixel of a patch that is not left out, 27 + 4 C more where it blends.
    "rasterize_bwd": lambda s: Cost(
        2 * (40 + 4 * CHANNELS) * s.visited + 4 * (4 * CHANNELS + 3) * 32 * s.patch_buckets,
        40 * PATCHES * s.visited + 30 * 32 * BUCKET * s.patch_buckets + (27 + 4 * CHANNELS) * s.evaluated,
    ),
    # rasterize_bwd.cu: 96 + 4 (6 + C) bytes, 30 operations.
    "finish_splats": lambda s: Cost((96 + 4 * (6 + CHANNELS)) * s.splats, 30 * s.splats),
    # update.cu: 24 bytes a parameter and 44 more; 950 operations and 15 a parameter.
    "update_splats": lambda s: Cost(
        (24 * (11 + 3 * s.coefficients) + 44) * s.splats,
        950 * s.drawn + 15 * (11 + 3 * s.coefficients) * s.splats,
    ),
}
"""Kernel, by its name without channels and scalar type, to what it costs; in the order of a step."""

OTHERS: dict[str, Callable[[Sizes], Cost]] = {
    # rasterize_by_ray.cu: 37 bytes a pair; 85 operations, and 40 a patch.
    "touched_patches": lambda s: Cost(37 * s.pairs, (85 + 40 * PATCHES) * s.pairs),
    # rasterize_by_ray.cu: 45 bytes a visited pair and 6 a pair for the backward, 4 C + 4 a pixel; 46 + 2 C operations an evaluated
    # pixel.
    "rasterize_by_ray_fwd": lambda s: Cost(
        45 * s.visited + 6 * s.pairs + (4 * CHANNELS + 4) * s.pixels, (46 + 2 * CHANNELS) * s.evaluated
    ),
    # rasterize_by_ray_bwd.cu: 53 bytes a visited pair, 4 (2 C + 2) a pixel, 8 an evaluated pixel; 79 + 6 C operations an evaluated
    # pixel.
    "ray_shares": lambda s: Cost(
        53 * s.visited + 4 * (2 * CHANNELS + 2) * s.pixels + 8 * s.evaluated,
        (79 + 6 * CHANNELS) * s.evaluated,
    ),
    # rasterize_by_ray_bwd.cu: 45 bytes a pair, 8 an evaluated pixel, 4 C a pixel, 8 (6 + C) a visited pair; 20 + 2 C operations
    # an evaluated pixel, and 32 lanes x 32 a visited pair.
    "rasterize_by_ray_bwd": lambda s: Cost(
        45 * s.pairs + 8 * (6 + CHANNELS) * s.visited + 4 * CHANNELS * s.pixels + 8 * s.evaluated,
        (20 + 2 * CHANNELS) * s.evaluated + 1024 * s.visited,
    ),
    # project.cu: 44 bytes in, 36 out; 330 operations.
    "project_fwd": lambda s: Cost(80 * s.splats, 330 * s.splats),
    # project.cu: 76 bytes in, 44 out; 650 operations.
    "project_bwd": lambda s: Cost(120 * s.splats, 650 * s.splats),
    # sh.cu: 12 bytes and the coefficients in, 12 out; 150 operations, and 55 to decode.
    "sh_colors_fwd": lambda s: Cost((24 + 12 * s.coefficients) * s.splats, 205 * s.splats),
    # sh.cu: 24 bytes and the coefficients in, 12 and the coefficients out; 460 operations.
    "sh_colors_bwd": lambda s: Cost((36 + 24 * s.coefficients) * s.splats, 460 * s.splats),
}
"""Kernels that a training step does without: ``project_colors_fwd`` and ``update_splats`` do their work, and all pixels have one
order."""

UNCOUNTED = {
    "adam_step",
    "relocate",
    "project_camera_bwd",
    "sh_camera_bwd",
    "ssim_tiles",
    "ssim_mean",
    "ssim_bwd",
    "photometric_pixels",
    "rasterize_bwd_absolute",
    "rasterize_by_ray_bwd_absolute",
}
"""Kernels that the bench inputs do not launch."""


def kernel_of(entry: str) -> str:
    """Returns the name under which an entry point such as "rasterize_fwd_c3_f32" stands in ``COSTS``."""
    name = entry.rpartition("_")[0]
    stem, _, channels = name.rpartition("_c")
    return stem if channels.isdigit() else name


def step_floor_ms(sizes: Sizes) -> float:
    """Returns the least milliseconds of a whole training step."""
    return sum(cost(sizes).floor_ms() for cost in COSTS.values())


def table(inputs: dict[str, Sizes]) -> list[str]:
    """Returns the floors of a step as lines of Markdown: a kernel a row, an input a column, with what binds it."""
    head = ["kernel", *(f"{name}, ms" for name in inputs), "bound by"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, count in COSTS.items():
        costs = [count(sizes) for sizes in inputs.values()]
        last = costs[-1]
        is_memory = last.bytes / FLOOR_BYTES_PER_S >= last.operations / FLOOR_OPERATIONS_PER_S
        cells = [name, *(f"{cost.floor_ms():.4f}" for cost in costs), "bytes" if is_memory else "operations"]
        lines.append("| " + " | ".join(cells) + " |")
    totals = [f"**{step_floor_ms(sizes):.3f}**" for sizes in inputs.values()]
    return [*lines, "| " + " | ".join(["**step**", *totals, ""]) + " |"]
