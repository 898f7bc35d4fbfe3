"""Every setting, declared once: default, limits, unit, label, help.

The command line, the panel and settings.json are derived from these declarations.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Container
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from splat_engine.formats.conventions import Formation
from splat_engine.formats.errors import UserError


@dataclass(frozen=True)
class Declaration:
    """What a person is told about a setting, and what is allowed.

    Attributes:
        label: Name in the panel.
        help: One sentence; tooltip and command-line help.
        unit: "px", "scene units", "s", "steps" ... or "".
        minimum, maximum: Hard limits, inclusive.
        choices: The allowed words, for a setting that is a Literal or names them itself.
        pattern: Regular expression of words that are allowed beside the choices; a panel offers the choices alone.
        pattern_help: Those words, for a person.
    """

    label: str
    help: str
    unit: str = ""
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    pattern: str = ""
    pattern_help: str = ""


def setting(
    default: Any,
    label: str,
    help: str,
    *,
    unit: str = "",
    minimum: float = -math.inf,
    maximum: float = math.inf,
    choices: tuple[str, ...] = (),
    pattern: str = "",
    pattern_help: str = "",
) -> Any:
    """Declares a field of a settings class."""
    declared = Declaration(label, help, unit, minimum, maximum, choices, pattern, pattern_help)
    return field(default=default, metadata={"declaration": declared})


Rig = Literal["scene", "selected", "active", "markers", "sphere", "dome", "ring"]
Target = Literal["auto", "linear", "display"]
LossSpace = Literal["auto", "encoded", "linear"]
StrategyName = Literal["none", "adaptive"]


@dataclass(frozen=True)
class CaptureSettings:
    """How views of the scene are chosen and rendered."""

    rig: Rig = setting(
        "sphere",
        "Cameras",
        "Where the views come from: all cameras of the scene, the selected ones, the active one, each camera bound "
        "to a timeline marker at its frame, or a rig around the target.",
    )
    views: int = setting(60, "Views", "Number of views of a rig.", minimum=1, maximum=100000)
    target: str = setting(
        "", "Target", "Object or collection the rig looks at; empty: everything that renders."
    )
    frames: str = setting(
        "", "Frames", "Frames to visit with the scene's cameras, as 1-100:5 or 1,7,9; empty: the present one."
    )
    hold_out: int = setting(
        8, "Hold Out", "Every how many-th view is held out for testing; 0: none.", minimum=0, maximum=1000
    )
    resolution: int = setting(
        0, "Resolution", "Longer side of a view; 0: the scene's resolution for its cameras, 512 for a rig.", unit="px",
        minimum=0, maximum=16384,
    )  # fmt: skip
    lens_mm: float = setting(
        50.0, "Lens", "Focal length of a rig's cameras on a 36 mm sensor.", unit="mm", minimum=1, maximum=5000
    )
    distance: float = setting(
        0.0,
        "Distance",
        "Distance of a rig's cameras from the target; 0: so that it fits.",
        unit="scene units",
        minimum=0,
    )
    elevation_deg: float = setting(
        20.0, "Elevation", "Height of a ring's cameras over the target's middle.", unit="degrees", minimum=-89, maximum=89
    )  # fmt: skip
    margin: float = setting(
        1.1, "Margin", "Room around the target where the distance is automatic.", minimum=0.1, maximum=100
    )
    engine: Literal["CYCLES", "EEVEE", "scene"] = setting("CYCLES", "Engine", "Render engine of the views.")
    samples: int = setting(
        32, "Samples", "Render samples of a training view; 0: the scene's.", minimum=0, maximum=65536
    )
    test_samples: int = setting(
        0,
        "Test Samples",
        "Render samples of a held-out view; 0: as a training view.",
        minimum=0,
        maximum=65536,
    )
    denoise: bool = setting(False, "Denoise", "Denoise the views; smoother targets, less texture.")
    transparent: bool = setting(
        True, "Transparent World", "Render the world as transparent, so that only objects become splats."
    )
    pictures: bool = setting(
        False, "Pictures", "Also write an 8-bit picture a view with the scene's look, for other trainers."
    )
    render: bool = setting(True, "Render", "Render the views; off: write the cameras alone.")
    points: int = setting(100000, "Start Points", "Most points of init.ply.", minimum=0, maximum=100000000)
    seed: int = setting(0, "Seed", "Seed of everything random in the capture.", minimum=0, maximum=2**31 - 1)


@dataclass(frozen=True)
class FitSettings:
    """What is fitted, to what, and for how long."""

    steps: int = setting(
        2000, "Steps", "Number of optimisation steps, one view each.", unit="steps", minimum=0, maximum=10**7
    )
    formation: Formation = setting(
        "blender", "Look", "Draw as Blender 5.3 does, or as web viewers and other trainers do."
    )
    target: Target = setting(
        "auto", "Colours", "Fit scene-linear light, display colours, or what the capture says."
    )
    sh_degree: int = setting(3, "SH Degree", "Degree of the view-dependent colour.", minimum=0, maximum=3)
    sh_interval: int = setting(
        100, "SH Interval", "Steps between two raises of the degree.", unit="steps", minimum=1
    )
    max_splats: int = setting(
        200000, "Most Splats", "No strategy goes beyond this number.", minimum=1, maximum=10**8
    )
    start: str = setting(
        "", "Start", "PLY of points or of splats to start from; empty: the capture's init.ply, else random."
    )
    start_opacity: float = setting(
        0.5,
        "Start Opacity",
        "Opacity of the first splats; of random ones at most 0.1.",
        minimum=0.01,
        maximum=0.98,
    )
    random_points: int = setting(
        20000,
        "Random Points",
        "Number of splats where nothing says where to start.",
        minimum=1,
        maximum=10**8,
    )
    min_sigma_px: float = setting(
        0.3,
        "Least Size",
        "No splat becomes thinner than this in the nearest view that sees it; 0: no bound. Look 'blender' alone.",
        unit="px",
        minimum=0,
        maximum=10,
    )
    loss_space: LossSpace = setting(
        "encoded",
        "Loss",
        "Compare encoded values, sharper; or linear light, which noisy views do not bias; or by the capture's samples.",
    )
    ssim_weight: float = setting(
        0.2,
        "SSIM Weight",
        "Share of D-SSIM in the loss of encoded values; the rest is L1.",
        minimum=0,
        maximum=1,
    )
    mse_weight: float = setting(0.0, "MSE Weight", "Weight of the squared error.", minimum=0, maximum=1000)
    alpha_weight: float = setting(
        0.1, "Alpha Weight", "Weight of the L1 loss on alpha.", minimum=0, maximum=1000
    )
    depth_weight: float = setting(
        0.0,
        "Depth Weight",
        "Weight of the L1 loss on depth, relative to the scene's extent.",
        minimum=0,
        maximum=1000,
    )
    normal_weight: float = setting(
        0.0, "Normal Weight", "Weight of the loss on normals.", minimum=0, maximum=1000
    )
    random_background: bool = setting(
        True,
        "Random Background",
        "Compose alpha over random colours, so that no splat paints the background.",
    )
    strategy: StrategyName = setting("adaptive", "Densification", "How the number of splats changes.")
    device: str = setting(
        "auto",
        "Device",
        "Where to fit: on the processor, on an NVIDIA card, or on a card where there is one.",
        choices=("auto", "cpu", "cuda"),
        pattern=r"cuda:\d{1,2}",
        pattern_help="cuda:N for the card of that number",
    )
    image_memory_mb: int = setting(
        4096,
        "Picture Memory",
        "Most memory for views; those beyond it are read from disk each time. On a card, those that do not fit into a "
        "quarter of its free memory are sent anew each time.",
        unit="MB",
        minimum=0,
        maximum=10**7,
    )
    threads: int = setting(0, "Threads", "CPU threads; 0: all.", minimum=0, maximum=4096)
    seed: int = setting(0, "Seed", "Same seed, same splats on one machine.", minimum=0, maximum=2**31 - 1)
    snapshot_interval: int = setting(
        500, "Snapshot Interval", "Steps between two snapshots; 0: none.", unit="steps", minimum=0
    )
    checkpoint_interval: int = setting(
        0,
        "Checkpoint Interval",
        "Steps between two checkpoints; 0: only on save, stop and at the end.",
        unit="steps",
        minimum=0,
    )


@dataclass(frozen=True)
class OptimizerSettings:
    """Adam's learning rates, for a few thousand steps from points on the surfaces."""

    # Several times those of Kerbl et al. 2023, whose fits take 30 000 steps, and falling to the end. With them 1000
    # steps on shared/data/dataset/suzanne256 give 38 dB held out in place of 33.4.
    means: float = setting(
        5e-4, "Means", "Learning rate of the centres, times the scene's extent.", minimum=0, maximum=1
    )
    means_final: float = setting(
        2e-5, "Means, End", "The same at the last step; exponential in between.", minimum=0, maximum=1
    )
    final_share: float = setting(
        0.3,
        "Others, End",
        "Share of the other rates that is left at the last step; exponential in between.",
        minimum=0,
        maximum=1,
    )
    log_scales: float = setting(4e-2, "Scales", "Learning rate of the log-scales.", minimum=0, maximum=1)
    quats: float = setting(4e-3, "Rotations", "Learning rate of the quaternions.", minimum=0, maximum=1)
    opacity_logits: float = setting(
        0.05, "Opacities", "Learning rate of the opacity logits.", minimum=0, maximum=10
    )
    sh_dc: float = setting(2e-2, "Colour", "Learning rate of the constant colour.", minimum=0, maximum=1)
    sh_rest: float = setting(
        3e-3, "Colour, Directional", "Learning rate of the other SH coefficients.", minimum=0, maximum=1
    )
    sparse: bool = setting(
        False, "Only Seen Splats", "Update only what the step's view sees: faster in scenes seen in parts."
    )


@dataclass(frozen=True)
class DensifySettings:
    """Adaptive density control (Kerbl et al. 2023)."""

    start: int = setting(
        200, "From", "First step that may change the number of splats.", unit="steps", minimum=0
    )
    stop_share: float = setting(
        0.7, "Until", "Share of all steps after which the number stays.", minimum=0, maximum=1
    )
    interval: int = setting(100, "Interval", "Steps between two changes.", unit="steps", minimum=1)
    gradient: float = setting(
        3e-4,
        "Gradient",
        "Mean screen-space gradient (in half image widths) above which a splat is cloned or split.",
        minimum=0,
    )
    split_size: float = setting(
        0.01,
        "Split Size",
        "Splats larger than this share of the scene's extent are split, others cloned.",
        minimum=0,
        maximum=1,
    )
    prune_opacity: float = setting(
        0.005, "Prune Opacity", "Splats weaker than this are removed.", minimum=0, maximum=1
    )
    prune_size: float = setting(
        0.5, "Prune Size", "Splats larger than this share of the scene's extent are removed.", minimum=0
    )
    sort_interval: int = setting(
        0,
        "Sort Interval",
        "Every how many-th change of the splats' number also sorts them in memory by their place in space; 0: never.",
        minimum=0,
    )
    reset_interval: int = setting(
        0, "Reset Interval", "Steps between two opacity resets; 0: none.", unit="steps", minimum=0
    )


@dataclass(frozen=True)
class RunSettings:
    """All settings of a fit."""

    fit: FitSettings = field(default_factory=FitSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    densify: DensifySettings = field(default_factory=DensifySettings)


@dataclass(frozen=True)
class ImageFitSettings:
    """How a picture is fitted with 2D Gaussians."""

    count: int = setting(300, "Gaussians", "Number of 2D Gaussians.", minimum=1, maximum=10**7)
    steps: int = setting(
        600, "Steps", "Number of optimisation steps.", unit="steps", minimum=0, maximum=10**7
    )
    rate_means: float = setting(
        2e-3, "Centres", "Learning rate of the centres, times the picture's width.", minimum=0, maximum=1
    )
    rate_colors: float = setting(1e-2, "Colours", "Learning rate of the colours.", minimum=0, maximum=1)
    rate_shapes: float = setting(
        5e-3, "Shapes", "Learning rate of log-scales, angles and opacities.", minimum=0, maximum=1
    )
    start_opacity: float = setting(
        0.5, "Start Opacity", "Opacity of the first Gaussians.", minimum=0.01, maximum=0.98
    )
    longest_px: int = setting(
        512, "Longest Side", "A larger picture is shrunk to this; 0: never.", unit="px", minimum=0
    )
    seed: int = setting(0, "Seed", "Same seed, same result.", minimum=0, maximum=2**31 - 1)


S = TypeVar("S")


def declaration(item: Field[Any], kind: Any) -> Declaration:
    """Returns what was declared for a field, with the choices of a Literal filled in."""
    declared: Declaration = item.metadata["declaration"]
    return replace(declared, choices=get_args(kind)) if get_origin(kind) is Literal else declared


def declarations(cls: type) -> dict[str, tuple[Any, Any, Declaration]]:
    """Returns name to (type, default, declaration) of a settings class's own fields, groups left out."""
    hints = get_type_hints(cls)
    return {
        item.name: (hints[item.name], item.default, declaration(item, hints[item.name]))
        for item in fields(cls)
        if "declaration" in item.metadata
    }


def to_dict(settings: Any) -> dict[str, Any]:
    """Returns settings as plain values, groups nested."""
    values = {item.name: getattr(settings, item.name) for item in fields(settings)}
    return {
        name: to_dict(value) if hasattr(value, "__dataclass_fields__") else value
        for name, value in values.items()
    }


def from_dict(cls: type[S], values: Any, *, where: str = "settings") -> S:
    """Builds settings from plain values; what is absent keeps its default.

    Args:
        cls: The settings class.
        values: Names to values, groups nested.
        where: The file or source, for messages.

    Raises:
        UserError: A name is unknown, or a value has the wrong type or lies outside its limits.
    """
    if not isinstance(values, dict):
        raise UserError(
            f"{where} must be a table of settings, got {type(values).__name__}.", "Write names and values."
        )
    hints = get_type_hints(cls)
    items: dict[str, Field[Any]] = {item.name: item for item in fields(cls)}  # type: ignore[arg-type]
    unknown = [name for name in values if name not in items]
    if unknown:
        raise UserError(
            f"{where} has the unknown setting {unknown[0]!r}.", f"Known settings: {', '.join(sorted(items))}."
        )
    built: dict[str, Any] = {}
    for name, value in values.items():
        if items[name].default is MISSING:
            built[name] = from_dict(hints[name], value, where=f"{where}: {name}")
        else:
            built[name] = _checked(name, value, hints[name], declaration(items[name], hints[name]), where)
    return cls(**built)


def _checked(name: str, value: Any, kind: Any, declared: Declaration, where: str) -> Any:
    if declared.choices:
        if value in declared.choices or _matches(declared.pattern, value):
            return value
        words = ", ".join((*declared.choices, *filter(None, [declared.pattern_help])))
        raise UserError(f"{where}: {name} is {value!r}.", f"Choose one of {words}.")
    if kind is float and type(value) is int and abs(value) < 2**1000:
        value = float(value)
    if type(value) is not kind:
        raise UserError(f"{where}: {name} is {value!r}.", f"It must be a value of type {kind.__name__}.")
    bounded = kind is not float or math.isfinite(value)
    if kind in (int, float) and not (bounded and declared.minimum <= value <= declared.maximum):
        unit = f" {declared.unit}" if declared.unit else ""
        raise UserError(f"{where}: {name} is {value}{unit}.", f"It must lie {_limits(declared)}.")
    return value


def _matches(pattern: str, value: Any) -> bool:
    return bool(pattern) and isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _limits(declared: Declaration) -> str:
    if math.isinf(declared.maximum):
        return f"at or above {declared.minimum:g} and be finite"
    return f"between {declared.minimum:g} and {declared.maximum:g}"


def option_name(name: str, prefix: str = "") -> str:
    """Returns the command-line option of a setting, such as ``--densify-start``."""
    return "--" + "-".join(part.replace("_", "-") for part in (prefix, name) if part)


def add_arguments(
    parser: argparse.ArgumentParser,
    cls: type,
    *,
    prefix: str = "",
    bare: Container[str] = (),
    only: Container[str] | None = None,
) -> None:
    """Adds an option for each setting of a class; absent options leave no trace in the namespace.

    Args:
        parser: The parser.
        cls: A settings class without groups.
        prefix: Put in front of every option's name.
        bare: Settings whose options go without the prefix, where one command takes several classes.
        only: Settings that get an option; None: all.
    """
    group = parser.add_argument_group((cls.__doc__ or "").strip().rstrip(".").lower())
    for name, (kind, default, declared) in declarations(cls).items():
        if only is not None and name not in only:
            continue
        option = option_name(name, "" if name in bare else prefix)
        text = f"{declared.help.replace('%', '%%')} Default: {'empty' if default == '' else default}{' ' + declared.unit if declared.unit else ''}."
        options: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": f"{prefix}.{name}", "help": text}
        if kind is bool:
            group.add_argument(option, action=argparse.BooleanOptionalAction, **options)
        else:
            options["metavar"] = "|".join(declared.choices) or kind.__name__.upper()
            if declared.pattern_help:
                options["help"] += f" Also {declared.pattern_help}."
            group.add_argument(option, type=str if declared.choices else kind, **options)


def from_arguments(
    cls: type[S], namespace: argparse.Namespace, *, prefix: str = "", base: S | None = None
) -> S:
    """Builds settings from a parsed command line.

    Args:
        cls: The settings class given to ``add_arguments`` with the same prefix.
        namespace: What the parser returned.
        prefix: As given to ``add_arguments``.
        base: Settings for what the command line does not say.

    Raises:
        UserError: A value is outside its limits.
    """
    start = f"{prefix}."
    given = {name[len(start) :]: value for name, value in vars(namespace).items() if name.startswith(start)}
    given = {name: value for name, value in given.items() if name in declarations(cls)}
    kept = to_dict(base) if base is not None else {}
    return from_dict(cls, {**kept, **given}, where="The command line")
