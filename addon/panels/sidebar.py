"""What the panels of the tab Splatfit share."""

from __future__ import annotations

from typing import Any


class Sidebar:
    """Where the panels are."""

    bl_space_type: Any = "VIEW_3D"
    bl_region_type: Any = "UI"
    bl_category = "Splatfit"
    layout: Any
