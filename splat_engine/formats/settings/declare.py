"""How a setting is declared, and what is derived from the declaration: tables, checks, command-line options."""

from __future__ import annotations

import argparse
import functools
import math
import re
from collections.abc import Container, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

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
        choice_words: Choice to (label, help) in the panel; a choice that is not in it shows as it is written.
        soft_minimum, soft_maximum: Where a slider ends; beyond, a number can be typed. Inclusive, within the hard limits.
        shape: "share" for a part of a whole, from 0 to 1; "" for anything else.
    """

    label: str
    help: str
    unit: str = ""
    minimum: float = -math.inf
    maximum: float = math.inf
    choices: tuple[str, ...] = ()
    pattern: str = ""
    pattern_help: str = ""
    choice_words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    soft_minimum: float = -math.inf
    soft_maximum: float = math.inf
    shape: Literal["", "share"] = ""


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
    choice_words: Mapping[str, tuple[str, str]] | None = None,
    soft: tuple[float, float] = (-math.inf, math.inf),
    shape: Literal["", "share"] = "",
) -> Any:
    """Declares a field of a settings class; ``soft`` is where a slider begins and ends."""
    words, (low, high) = choice_words or {}, soft
    declared = Declaration(
        label, help, unit, minimum, maximum, choices, pattern, pattern_help, words, low, high, shape
    )
    return field(default=default, metadata={"declaration": declared})


S = TypeVar("S")


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    """Types of a class's fields: they are written as text, and reading it takes longer than anything else here."""
    return get_type_hints(cls)


def declaration(item: Field[Any], kind: Any) -> Declaration:
    """Returns what was declared for a field, with the choices of a Literal filled in."""
    declared: Declaration = item.metadata["declaration"]
    return replace(declared, choices=get_args(kind)) if get_origin(kind) is Literal else declared


def declarations(cls: type) -> dict[str, tuple[Any, Any, Declaration]]:
    """Returns name to (type, default, declaration) of a settings class's own fields, groups left out."""
    hints = _hints(cls)
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
    hints = _hints(cls)  # type: ignore[arg-type]
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
