"""A preset sets what it is about, and anything that is said by itself wins over it."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest

from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import (
    PRESETS,
    CaptureSettings,
    FitSettings,
    RunSettings,
    add_arguments,
    capture_with_preset,
    from_dict,
    preset_values,
    run_from_dict,
    run_with_arguments,
    run_with_preset,
    to_dict,
)


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser, FitSettings)
    return parser.parse_args(list(words))


def test_presets_name_settings_that_exist_and_stay_within_limits() -> None:
    """What a preset says is accepted where it is declared; standard is the default."""
    for name, groups in PRESETS.items():
        for group, cls in (("capture", CaptureSettings), ("fit", FitSettings)):
            from_dict(cls, groups.get(group, {}), where=name)
        assert set(groups) <= {"capture", "fit"}
    assert run_with_preset(RunSettings(), "standard") == RunSettings()
    assert capture_with_preset(CaptureSettings(), "standard") == CaptureSettings()


def test_better_takes_longer() -> None:
    """From draft to high, steps, splats and views grow, and samples do not fall."""
    values = [preset_values(name) for name in ("draft", "standard", "high")]
    for group, names in values[0].items():
        for name in names:
            worse, middle, better = (value[group][name] for value in values)
            assert worse < middle < better or (name == "samples" and worse <= middle < better), name


def test_a_preset_takes_back_another() -> None:
    """What only another preset sets returns to its default; what no preset is about stays."""
    draft = run_with_preset(replace(RunSettings(), fit=FitSettings(seed=5)), "draft")
    assert draft.fit.preset == "draft" and draft.fit.steps == PRESETS["draft"]["fit"]["steps"]
    assert run_with_preset(draft, "standard") == replace(RunSettings(), fit=FitSettings(seed=5))


def test_the_command_lines_preset() -> None:
    """Named, it replaces what a settings file says of its subjects; not named, they stay; nonsense is refused."""
    base = replace(RunSettings(), fit=FitSettings(steps=9, seed=5))
    assert run_with_arguments(base, parsed("--seed", "1")) == replace(base, fit=FitSettings(steps=9, seed=1))
    high = run_with_arguments(base, parsed("--preset", "high"))
    assert (high.fit.steps, high.fit.seed) == (PRESETS["high"]["fit"]["steps"], 5)
    with pytest.raises(UserError, match="preset is 'best'"):
        run_with_arguments(base, parsed("--preset", "best"))


def test_a_settings_file_with_a_preset() -> None:
    """What the file leaves out is as its preset has it; what it says wins; a whole file comes back as it was written."""
    read = run_from_dict({"fit": {"preset": "draft", "max_splats": 77}}, where="file")
    assert (read.fit.steps, read.fit.max_splats) == (PRESETS["draft"]["fit"]["steps"], 77)
    changed = replace(read, fit=replace(read.fit, steps=RunSettings().fit.steps))
    assert run_from_dict(to_dict(changed), where="file") == changed
    with pytest.raises(UserError, match="file has the unknown setting"):
        run_from_dict({"fits": {}}, where="file")
