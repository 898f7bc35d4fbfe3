"""Splatfit: fits 3D Gaussian splats to a Blender scene, and brings them back in place.

Importing this package does no work; Blender calls ``register`` when the extension is enabled.
"""

from __future__ import annotations


def register() -> None:
    """Adds Splatfit's operators, panels and settings to Blender."""
    from . import registration

    registration.register()


def unregister() -> None:
    """Takes them away again, and ends what is still running."""
    from . import registration

    registration.unregister()
