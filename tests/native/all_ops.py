"""Calls every op of the C ABI on one small scene, numpy only. test_sizes.py and test_concurrency.py run it.

Outputs are filled with NaN before each call, so a number that an op forgot is seen.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from splat_engine import native
from splat_engine.native import structs

Array = NDArray[np.floating]
SH_COEFFICIENTS, SH_DEGREE = 9, 2
CHANNELS = 3
ADAM = {"rate1": 0.1, "beta2": 0.99, "rate2": 0.01, "eps": 1e-8, "inverse_root": 1.5}
PARAMETERS = ("means", "log_scales", "quats_wxyz", "opacity_logits", "sh")


@dataclass(frozen=True)
class Case:
    """Sizes and type of one scene; equal cases are equal scenes.

    Attributes:
        count: N splats.
        width: px.
        height: px.
        dtype: name of the type of all arrays, "float32" or "float64".
    """

    count: int
    width: int
    height: int
    dtype: str

    @property
    def scalar(self) -> str:
        """The type as the C ABI names it."""
        return {"float32": "f32", "float64": "f64"}[self.dtype]


class Calls:
    """Calls ops on the arrays of one scene and collects what they write.

    Args:
        case: sizes and type.

    Attributes:
        arrays: every input and output by name.
        outputs: names of the arrays that ops have written.
        ops: names of the ops called.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.arrays: dict[str, Array] = {}
        self.outputs: list[str] = []
        self.ops: list[str] = []

    def put(self, **arrays: Array) -> None:
        """Add inputs, cast to the scene's type."""
        self.arrays |= {name: np.ascontiguousarray(array, self.case.dtype) for name, array in arrays.items()}

    def put_changing(self, prefix: str, **arrays: Array) -> str:
        """Add copies of arrays that an op will change; returns them as `call` takes them."""
        self.put(**{prefix + name: array.copy() for name, array in arrays.items()})
        self.outputs += [prefix + name for name in arrays]
        return " ".join(f"{name}={prefix}{name}" for name in arrays)

    def call(
        self, op: str, inputs: str, outputs: dict[str, tuple[int, ...]], prefix: str = "", **numbers: object
    ) -> None:
        """Call one op.

        Args:
            op: its name.
            inputs: fields that are arrays of this scene, separated by blanks; "field=name" where the names differ.
            outputs: field to shape of what it writes.
            prefix: of the names under which the outputs are kept.
            **numbers: all other fields.
        """
        pairs = [word.partition("=") for word in inputs.split()]
        fields = {field: self.arrays[name or field].ctypes.data for field, _, name in pairs}
        for field, shape in outputs.items():
            written = np.full(shape, np.nan, self.case.dtype)
            self.arrays[prefix + field] = written
            self.outputs.append(prefix + field)
            fields[field] = written.ctypes.data
        self.ops.append(op)
        native.call(op, self.case.scalar, **fields, **numbers)


def run_all(case: Case) -> Calls:
    """Every op once or more, forward and backward, on the scene of a case."""
    calls = Calls(case)
    put_scene(calls)
    forward(calls)
    compare(calls)
    photometric(calls)
    backward(calls)
    adam(calls)
    update(calls)
    step(calls)
    relocate(calls)
    return calls


def put_scene(calls: Calls) -> None:
    """Splats in a cube that fills the image, a target, and cotangents."""
    case = calls.case
    random = np.random.default_rng(case.count + 7 * case.width)
    viewmat = np.eye(4)
    viewmat[2, 3] = 4.0
    focal_px = 2.0 * max(case.width, case.height)
    calls.put(
        means=random.uniform(-1, 1, (case.count, 3)),
        log_scales=random.uniform(-4, -2, (case.count, 3)),
        quats_wxyz=random.normal(size=(case.count, 4)),
        opacity_logits=random.normal(size=case.count),
        sh=random.normal(size=(case.count, SH_COEFFICIENTS, 3)),
        viewmat=viewmat,
        intrinsics=np.array([focal_px, focal_px, case.width / 2, case.height / 2]),
        background=random.uniform(0, 1, CHANNELS),
        target=random.uniform(0, 1, (case.height, case.width, CHANNELS)),
        target_alpha=random.uniform(0, 1, (case.height, case.width)),
        v_alpha=random.normal(size=(case.height, case.width)),
        v_depths=random.normal(size=case.count),
        v_normals=random.normal(size=(case.count, 3)),
        v_mean=np.array([1.0]),
    )


def projection_numbers(case: Case) -> dict[str, object]:
    """The fields of project and its backward that are not arrays."""
    return {
        "count": case.count,
        "width": case.width,
        "height": case.height,
        "antialiased": 1,
        "dilation_px2": 0.3,
        "near_depth": 0.01,
    }


def colors_numbers(case: Case) -> dict[str, object]:
    """The fields of sh_colors and its backward that are not arrays."""
    return {"count": case.count, "coefficients": SH_COEFFICIENTS, "degree": SH_DEGREE, "decode": 1}


def forward(calls: Calls) -> None:
    """Splats to the screen, their colours, and pictures in either order."""
    case = calls.case
    count = case.count
    splats = "means log_scales quats_wxyz opacity_logits viewmat intrinsics"
    screen = {
        "means2d": (count, 2),
        "depths": (count,),
        "conics": (count, 3),
        "opacities": (count,),
        "normals": (count, 3),
        "depth_slopes": (count, 2),
        "radii": (count, 2),
    }
    calls.call("project_fwd", splats, screen, **projection_numbers(case))
    calls.call("sh_colors_fwd", "means sh viewmat", {"colors": (count, 3)}, **colors_numbers(case))
    rasterize(calls, "depths", "")
    rasterize(calls, "depths depth_slopes", "ray_")


def rasterize(calls: Calls, order: str, prefix: str) -> None:
    """Splats on the screen to a picture, and its gradient for the picture's own values.

    Args:
        calls: the scene, with splats on the screen.
        order: the inputs that say the order.
        prefix: of the names of all that is made.
    """
    case = calls.case
    count, size = case.count, (case.height, case.width)
    sizes = {"count": count, "width": case.width, "height": case.height, "channels": CHANNELS}
    drawn = "means2d conics opacities features=colors background"
    slot = ctypes.c_void_p(None)
    pictures = {"image": (*size, CHANNELS), "alpha": size}
    calls.call("rasterize_fwd", f"{drawn} {order}", pictures, prefix, **sizes, context=ctypes.addressof(slot))
    calls.arrays[f"{prefix}v_image"] = calls.arrays[f"{prefix}image"]
    gradients = {
        "v_means2d": (count, 2),
        "v_conics": (count, 3),
        "v_opacities": (count,),
        "v_features": (count, 3),
        "v_background": (CHANNELS,),
        "v_abs_means2d": (count, 2),
    }
    made = " ".join(f"{name}={prefix}{name}" for name in ("image", "alpha", "v_image"))
    calls.call("rasterize_bwd", f"{drawn} {made} v_alpha", gradients, prefix, **sizes, context=slot.value)
    measure(calls, slot.value, prefix)
    native.load_library().handle.splat_context_free(slot)


def measure(calls: Calls, context: int | None, prefix: str) -> None:
    """What the forward counted, of which the last three do not depend on time or threads, and a little arithmetic."""
    counts, operations = np.zeros(8, np.int64), np.zeros(1, np.int64)
    calls.call("raster_counts", "", {}, context=context, replay=1, counts=counts.ctypes.data)
    calls.put_changing(f"{prefix}raster_", counts=counts[-3:])
    numbers = {"rounds": 100, "factor": 0.5, "addend": 1.0}
    calls.call("peak_fma", "", {"sum": (1,)}, f"{prefix}peak_", operations=operations.ctypes.data, **numbers)


def compare(calls: Calls) -> None:
    """Structural similarity of picture and target, over all pixels, and where it has any over those far inside."""
    case = calls.case
    shape = (case.height, case.width, CHANNELS)
    for valid in (0, 1) if min(case.width, case.height) >= 11 else (0,):
        prefix = f"ssim{valid}_"
        sizes = {"height": case.height, "width": case.width, "channels": CHANNELS, "valid": valid}
        written = {"mean": (1,), "maps": (3, *shape)}
        calls.call("ssim_fwd", "image target", written, prefix, **sizes, data_range=1.0)
        inputs = f"image target maps={prefix}maps v_mean"
        calls.call("ssim_bwd", inputs, {"v_image": shape}, prefix, **sizes)


def photometric(calls: Calls) -> None:
    """The loss of the training step with its gradient: every pixel as sRGB, two thirds of them as they are, in linear light."""
    case = calls.case
    counted = np.arange(case.height * case.width, dtype=np.uint8) % 3
    weights = {"l1_weight": 0.8, "ssim_weight": 0.2, "mse_weight": 0.1, "alpha_weight": 0.3}
    for encode, linear in ((1, 0), (0, 0), (1, 1), (0, 1)):
        gradients = {"v_image": (case.height, case.width, CHANNELS), "v_alpha": (case.height, case.width)}
        calls.call(
            "photometric_loss",
            "image alpha target target_alpha background",
            {"figures": (5,), **gradients},
            f"photometric{encode}{linear}_",
            height=case.height,
            width=case.width,
            encode=encode,
            linear=linear,
            valid=None if encode else counted.ctypes.data,
            **{**weights, "ssim_weight": 0.0 if linear else 0.2},
        )


def backward(calls: Calls) -> None:
    """From gradients on the screen to those of the splats and of the camera."""
    case, count = calls.case, calls.case.count
    calls.call(
        "project_bwd",
        "means log_scales quats_wxyz opacity_logits viewmat intrinsics radii "
        "v_means2d v_depths v_conics v_opacities v_normals",
        {
            "v_means": (count, 3),
            "v_log_scales": (count, 3),
            "v_quats_wxyz": (count, 4),
            "v_opacity_logits": (count,),
            "v_viewmat": (4, 4),
            "v_intrinsics": (4,),
        },
        **projection_numbers(case),
    )
    calls.call(
        "sh_colors_bwd",
        "means sh viewmat v_colors=v_features",
        {"v_sh": (count, SH_COEFFICIENTS, 3), "v_means": (count, 3), "v_viewmat": (4, 4)},
        "sh_",
        **colors_numbers(case),
    )


def adam(calls: Calls) -> None:
    """One step of the colours with their gradient: all rows, then every third."""
    count, row_size = calls.case.count, SH_COEFFICIENTS * 3
    visible = (np.arange(count) % 3 == 0).astype(np.uint8)
    sh = calls.arrays["sh"]
    for prefix, mask in (("all_", None), ("sparse_", visible)):
        fields = calls.put_changing(prefix, parameter=sh, exp_avg=sh, exp_avg_sq=np.square(sh))
        calls.call(
            "adam_step",
            f"gradient=sh_v_sh {fields}",
            {},
            rows=count,
            row_size=row_size,
            visible=None if mask is None else mask.ctypes.data,
            step_size=0.01,
            **ADAM,
        )


def update(calls: Calls) -> None:
    """One step of all parameters from the gradients on the screen: all splats, then those that a pixel saw."""
    state = {}
    for name in PARAMETERS:
        value = calls.arrays[name]
        state |= {name: value, f"first_{name}": value, f"second_{name}": np.square(value)}
    seen = "v_means2d v_conics v_opacities v_colors=v_features"  # 0 for splats that no pixel saw
    steps = {f"step_{name}": 0.01 for name in (*PARAMETERS, "sh_constant")}
    for sparse, gradients in ((0, f"{seen} v_depths v_normals"), (1, seen)):
        fields = calls.put_changing(f"update{sparse}_", **state)
        calls.call(
            "update_splats",
            f"viewmat intrinsics radii {gradients} {fields}",
            {},
            sparse=sparse,
            **(projection_numbers(calls.case) | colors_numbers(calls.case) | steps | ADAM),
        )


def step(calls: Calls) -> None:
    """A whole training step; its scratch is the library's own."""
    case = calls.case
    state = {}
    for name in PARAMETERS:
        value = calls.arrays[name]
        state |= {name: value, f"first_{name}": value, f"second_{name}": np.square(value)}
    changed = calls.put_changing("step_", **state)
    calls.put(step_figures=np.full(5, np.nan))
    calls.outputs.append("step_figures")
    given = {
        field: calls.arrays[name or field].ctypes.data
        for field, _, name in (word.partition("=") for word in f"viewmat intrinsics {changed}".split())
    }
    steps = {f"step_{name}": 0.01 for name in (*PARAMETERS, "sh_constant")}
    numbers = projection_numbers(case) | colors_numbers(case) | steps | ADAM
    update = structs.structure("update_splats", case.scalar)(**given, **numbers)
    compared = ("target", "target_alpha", "background")
    loss = structs.structure("photometric_loss", case.scalar)(
        height=case.height,
        width=case.width,
        encode=1,
        l1_weight=0.8,
        ssim_weight=0.2,
        figures=calls.arrays["step_figures"].ctypes.data,
        **{name: calls.arrays[name].ctypes.data for name in compared},
    )
    written = {"radii": (case.count, 2), "v_means2d": (case.count, 2)}
    structures = {"update": ctypes.addressof(update), "loss": ctypes.addressof(loss)}
    calls.call("train_step", "", written, "step_", **structures)


def relocate(calls: Calls) -> None:
    """Each splat as 1 to 60 copies of itself; more than 51 count as 51."""
    count = calls.case.count
    copies = (np.arange(count) % 60 + 1).astype(np.int32)
    outputs = {"new_opacities": (count,), "new_scales": (count, 3)}
    inputs = "opacities=plain_opacities scales=plain_scales"
    calls.put(
        plain_opacities=1 / (1 + np.exp(-calls.arrays["opacity_logits"])),
        plain_scales=np.exp(calls.arrays["log_scales"]),
    )
    calls.call("relocate", inputs, outputs, count=count, counts=copies.ctypes.data)


def relative_error(first: Array, second: Array) -> float:
    """L2 distance over the L2 norm of the second; 0 for equal arrays."""
    distance = float(np.linalg.norm((first - second).astype(np.float64)))
    return distance / float(np.linalg.norm(second.astype(np.float64))) if distance else 0.0
