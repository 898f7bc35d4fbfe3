"""A UILayout that draws nothing and checks every call against Blender's own description of UILayout."""

from __future__ import annotations

from typing import Any

import bpy

_RNA = bpy.types.UILayout.bl_rna
_LAYOUTS = {"row", "column", "box", "split", "column_flow", "grid_flow", "menu_pie"}
_POSITIONAL = {
    "prop": ("data", "property"),
    "operator": ("operator",),
    "menu": ("menu",),
    "panel": ("idname",),
}


class FakeLayout:
    """Takes the calls of a panel's draw, and keeps what was said.

    Attributes:
        calls: (function, arguments) in order, shared by all layouts made from this one.
    """

    def __init__(self, calls: list[tuple[str, dict[str, Any]]] | None = None) -> None:
        object.__setattr__(self, "calls", [] if calls is None else calls)

    def __setattr__(self, name: str, value: Any) -> None:
        assert name in _RNA.properties, f"UILayout has no property {name}"
        assert not _RNA.properties[name].is_readonly, f"UILayout.{name} is read-only"

    def __getattr__(self, name: str) -> Any:
        assert name in _RNA.functions, f"UILayout has no function {name}"
        return lambda *positional, **named: self._call(name, positional, named)

    def _call(self, name: str, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        arguments = dict(zip(_POSITIONAL.get(name, ()), positional, strict=True)) | named
        parameters = _RNA.functions[name].parameters
        for key, value in arguments.items():
            assert key in parameters, f"UILayout.{name} takes no {key}"
            self._check_value(name, parameters[key], value)
        self.calls.append((name, arguments))
        if name == "prop":
            assert arguments["property"] in arguments["data"].bl_rna.properties, arguments
        if name == "operator":
            return self._operator(arguments["operator"])
        if name == "panel":
            return FakeLayout(self.calls), FakeLayout(self.calls)  # header, and the body of one that is open
        return FakeLayout(self.calls) if name in _LAYOUTS else None

    def _check_value(self, name: str, parameter: Any, value: Any) -> None:
        if parameter.type == "ENUM":
            assert value in parameter.enum_items, (
                f"UILayout.{name}: {parameter.identifier} {value!r} is unknown"
            )
        elif parameter.type == "STRING":
            assert isinstance(value, str), f"UILayout.{name}: {parameter.identifier} must be text"
        elif parameter.type == "FLOAT":
            assert parameter.hard_min <= value <= parameter.hard_max, (name, parameter.identifier, value)

    @staticmethod
    def _operator(idname: str) -> Any:
        group, function = idname.split(".")
        return _Button(
            getattr(getattr(bpy.ops, group), function).get_rna_type()
        )  # KeyError where there is none

    def texts(self) -> list[str]:
        """Returns every text that was drawn."""
        return [arguments["text"] for _, arguments in self.calls if arguments.get("text")]

    def operators(self) -> list[str]:
        """Returns the operators of the buttons that were drawn."""
        return [arguments["operator"] for name, arguments in self.calls if name == "operator"]


class _Button:
    """What ``operator`` returns: takes the operator's own properties alone."""

    def __init__(self, operator: Any) -> None:
        object.__setattr__(self, "_operator", operator)

    def __setattr__(self, name: str, value: Any) -> None:
        assert name in self._operator.properties, f"{self._operator.identifier} has no property {name}"


def draw(panel: Any, context: Any = None) -> FakeLayout:
    """Draws a panel class into a fake layout and returns it."""
    layout = FakeLayout()
    stand_in = type(panel.__name__, (), {**attributes_of(panel), "layout": layout})()
    panel.draw(stand_in, bpy.context if context is None else context)
    return layout


def attributes_of(panel: Any) -> dict[str, Any]:
    return {
        name: getattr(panel, name) for name in ("group", "names", "engine_python") if hasattr(panel, name)
    }
