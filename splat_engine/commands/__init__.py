"""What the command line can be told to do: one module for a command or two that are alike, with its options and its work.

Each imports torch inside its work alone: see splat_engine.cli.
"""
