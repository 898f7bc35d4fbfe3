"""All settings at their defaults, and the quality draft."""

from typing import Any

import bpy

scene: Any = bpy.context.scene
chosen = scene.splatfit
for group in ("fit", "start", "loss", "schedule", "optimizer", "densify", "tidy", "capture"):
    settings = getattr(chosen, group)
    for item in settings.bl_rna.properties:
        if item.identifier not in ("rna_type", "name", "target", "faces"):
            settings.property_unset(item.identifier)
chosen.quality = "draft"
