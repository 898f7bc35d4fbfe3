"""The benchmark's scenes, built by script in Blender's Python: each module's ``build`` fills an empty file."""
