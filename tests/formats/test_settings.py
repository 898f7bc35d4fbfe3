"""Settings: declared once, and everything that is derived from the declaration."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat_engine.formats import settings as module
from splat_engine.formats.errors import UserError
from splat_engine.formats.settings import (
    CaptureSettings,
    DensifySettings,
    FitSettings,
    LossSettings,
    OptimizerSettings,
    RunSettings,
    ScheduleSettings,
    StartSettings,
    TidySettings,
    add_arguments,
    declarations,
    from_arguments,
    from_dict,
    option_name,
    setting,
    to_dict,
)

CLASSES = [value for name, value in vars(module).items() if name.endswith("Settings") and is_dataclass(value)]
FLAT = [cls for cls in CLASSES if declarations(cls)]
ALL_FIELDS = [(cls, name) for cls in FLAT for name in declarations(cls)]


def allowed(cls: type, name: str) -> st.SearchStrategy[Any]:
    """Returns the values that a setting may have."""
    kind, _, declared = declarations(cls)[name]
    if declared.choices:
        return st.sampled_from(declared.choices)
    if kind is int:
        return st.integers(int(max(declared.minimum, -(2**40))), int(min(declared.maximum, 2**40)))
    if kind is float:
        return st.floats(max(declared.minimum, -1e300), min(declared.maximum, 1e300))
    return {bool: st.booleans(), str: st.text(max_size=9)}[kind]


@st.composite
def instances(draw: st.DrawFn, cls: type) -> Any:
    """Draws settings with any allowed values."""
    return cls(**{name: draw(allowed(cls, name)) for name in declarations(cls)})


@given(st.data())
def test_settings_survive_json(data: st.DataObject) -> None:
    """from_dict after to_dict gives the same settings, through JSON text, groups nested."""
    groups = {
        "fit": FitSettings,
        "loss": LossSettings,
        "schedule": ScheduleSettings,
        "optimizer": OptimizerSettings,
        "densify": DensifySettings,
        "start": StartSettings,
        "tidy": TidySettings,
    }
    whole = RunSettings(**{name: data.draw(instances(cls)) for name, cls in groups.items()})
    for value in (whole, data.draw(instances(CaptureSettings))):
        assert from_dict(type(value), json.loads(json.dumps(to_dict(value), allow_nan=False))) == value


@given(st.data())
def test_absent_names_keep_their_default(data: st.DataObject) -> None:
    """Any part of a table will do."""
    name = data.draw(st.sampled_from(list(declarations(FitSettings))))
    value = data.draw(allowed(FitSettings, name))
    assert from_dict(FitSettings, {name: value}) == FitSettings(**{name: value})
    assert from_dict(RunSettings, {"fit": {name: value}}) == RunSettings(fit=FitSettings(**{name: value}))


def test_every_settings_class_is_small_and_declared() -> None:
    """Under 25 fields a class; each field is a declared setting, or a class is groups of them alone."""
    assert {
        CaptureSettings,
        FitSettings,
        LossSettings,
        ScheduleSettings,
        OptimizerSettings,
        DensifySettings,
        StartSettings,
        TidySettings,
    } <= set(FLAT)
    for cls in CLASSES:
        assert 0 < len(fields(cls)) < 25, cls.__name__
        for item in fields(cls):
            declared = "declaration" in item.metadata
            assert declared == (item.default is not MISSING) == (cls in FLAT), item.name
            assert declared or item.default_factory in FLAT, item.name


@pytest.mark.parametrize(("cls", "name"), ALL_FIELDS)
def test_every_declaration_speaks_to_a_person(cls: type, name: str) -> None:
    """A label in title case, a help sentence with its full stop, a default inside its own limits."""
    kind, default, declared = declarations(cls)[name]
    assert declared.label and declared.label[0].isupper() and len(declared.label) <= 24
    assert declared.help.endswith(".") and len(declared.help) > 10
    assert declared.minimum <= declared.maximum
    assert from_dict(cls, {name: default}) == cls()
    assert kind in (bool, int, float, str) or declared.choices


@pytest.mark.parametrize(("cls", "name"), ALL_FIELDS)
def test_limits_and_types_are_kept(cls: type, name: str) -> None:
    """Beyond a limit, of another type, not finite, not among the choices: refused with the setting's name."""
    kind, _, declared = declarations(cls)[name]
    wrong: list[Any] = [None, [], {}, b"x"]
    if declared.choices:
        wrong += ["no such choice", 1, True]
    elif kind is bool:
        wrong += [0, 1, "true"]
    elif kind is str:
        wrong += [0, True]
    else:
        wrong += ["1", True, math.nan, math.inf, -math.inf, 10**400 if kind is float else 0.5]
        wrong += [
            limit + sign
            for limit, sign in ((declared.minimum, -1), (declared.maximum, 1))
            if math.isfinite(limit)
        ]
        if kind is int:
            wrong = [
                int(v) if isinstance(v, float) and math.isfinite(v) and v == int(v) else v for v in wrong
            ]
    for value in wrong:
        with pytest.raises(UserError) as caught:
            from_dict(cls, {name: value}, where="x.json")
        assert (
            caught.value.headline.startswith("x.json: ")
            and name in caught.value.headline
            and caught.value.hint
        )


def test_words_beside_the_choices() -> None:
    """A card's number after "cuda:" is legal, in a file and on the command line; nothing that only looks like it."""
    parser = argparse.ArgumentParser()
    add_arguments(parser, FitSettings)
    for word in ("auto", "cpu", "cuda", "cuda:0", "cuda:12"):
        assert from_dict(FitSettings, {"device": word}).device == word
        assert from_arguments(FitSettings, parser.parse_args(["--device", word])).device == word
    for word in ("cuda:", "cuda:-1", "cuda:1 ", "cuda:1\n", "xcuda:1", "cuda:1000", "gpu", 0, None):
        with pytest.raises(UserError, match="device") as caught:
            from_dict(FitSettings, {"device": word})
        assert "cuda:N" in caught.value.hint
    assert declarations(FitSettings)["device"][2].choices == ("auto", "cpu", "cuda")
    assert "cuda:N" in parser.format_help()


def test_only_some_options() -> None:
    """A command may take a few settings of a class; the others keep their defaults."""
    parser = argparse.ArgumentParser()
    add_arguments(parser, FitSettings, only=("device",))
    assert from_arguments(FitSettings, parser.parse_args(["--device", "cpu"])) == FitSettings(device="cpu")
    assert "--steps" not in parser.format_help()


def test_limits_themselves_are_allowed() -> None:
    """They are inclusive."""
    for cls, name in ALL_FIELDS:
        kind, _, declared = declarations(cls)[name]
        for limit in (declared.minimum, declared.maximum):
            if math.isfinite(limit):
                assert getattr(from_dict(cls, {name: kind(limit)}), name) == limit


def test_sliders_end_within_the_limits() -> None:
    """Where a slider begins and ends lies within the hard limits, with the default between; shares run from 0 to 1."""
    found = 0
    for cls, name in ALL_FIELDS:
        kind, default, declared = declarations(cls)[name]
        if math.isfinite(declared.soft_minimum) or math.isfinite(declared.soft_maximum):
            found += 1
            assert declared.minimum <= declared.soft_minimum < declared.soft_maximum <= declared.maximum, name
            assert declared.soft_minimum <= default <= declared.soft_maximum, name
        if declared.shape == "share":
            found += 1
            assert kind is float and declared.minimum >= 0 and declared.maximum <= 1, name
        assert set(declared.choice_words) <= set(declared.choices), name
    assert found > 10


def test_whole_numbers_become_floats() -> None:
    """JSON writes 1.0 as 1 in other languages; the type in memory stays the declared one."""
    lens = from_dict(CaptureSettings, {"lens_mm": 35}).lens_mm
    assert lens == 35 and isinstance(lens, float)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"stepps": 3}, "unknown setting 'stepps'"),
        ({"fit": {"stepps": 3}}, "fit has the unknown setting 'stepps'"),
        ({"fit": 3}, "fit must be a table"),
        ([], "must be a table"),
        (None, "must be a table"),
        ({3: 3}, "unknown setting 3"),
    ],
)
def test_unknown_names_and_other_shapes_are_refused(values: Any, words: str) -> None:
    """A typing error must not become a default; the known names are listed."""
    with pytest.raises(UserError) as caught:
        from_dict(RunSettings, values)
    assert words in caught.value.headline and caught.value.hint


def parser_of(cls: type, prefix: str = "") -> argparse.ArgumentParser:
    """Returns a parser with the options of a class."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser, cls, prefix=prefix)
    return parser


@pytest.mark.parametrize("cls", FLAT)
@pytest.mark.parametrize("prefix", ["", "densify"])
def test_options_and_settings_are_the_same_set(cls: type, prefix: str) -> None:
    """Each setting has its option, and no option stands without a setting; the help says default and unit."""
    parser = parser_of(cls, prefix)
    options = {name for action in parser._actions for name in action.option_strings} - {"-h", "--help"}
    table = declarations(cls)
    negated = {
        f"--no-{option_name(name, prefix)[2:]}" for name, (kind, _, _) in table.items() if kind is bool
    }
    assert options == {option_name(name, prefix) for name in table} | negated
    text = " ".join(parser.format_help().split())
    for _, default, declared in table.values():
        # argparse breaks lines after hyphens.
        assert declared.help.replace("- ", "-") in text.replace("- ", "-")
        shown = "empty" if default == "" else default
        assert f"Default: {shown}{' ' + declared.unit if declared.unit else ''}." in text


@given(st.data())
def test_a_command_line_says_any_settings(data: st.DataObject) -> None:
    """Every setting written as options comes back equal; nothing said leaves everything as it was."""
    cls = data.draw(st.sampled_from(FLAT))
    wanted = data.draw(instances(cls))
    words = []
    for name, (kind, _, _) in declarations(cls).items():
        value, option = getattr(wanted, name), option_name(name, "group")
        words += [option if value else f"--no-{option[2:]}"] if kind is bool else [f"{option}={value}"]
    assert from_arguments(cls, parser_of(cls, "group").parse_args(words), prefix="group") == wanted
    assert from_arguments(cls, parser_of(cls).parse_args([]), base=wanted) == wanted


def test_the_command_line_goes_before_the_base() -> None:
    """A resumed run keeps its settings but for what is said anew."""
    namespace = parser_of(FitSettings).parse_args(["--steps", "7"])
    built = from_arguments(FitSettings, namespace, base=FitSettings(steps=5, seed=9))
    assert built == FitSettings(steps=7, seed=9)
    namespace = parser_of(LossSettings).parse_args(["--no-random-background"])
    built_loss = from_arguments(LossSettings, namespace, base=LossSettings(mse_weight=2.0))
    assert built_loss == LossSettings(mse_weight=2.0, random_background=False)


def test_prefixes_keep_groups_apart() -> None:
    """Two classes with a field of one name live in one parser."""
    parser = argparse.ArgumentParser()
    add_arguments(parser, FitSettings)
    add_arguments(parser, CaptureSettings, prefix="capture")
    namespace = parser.parse_args(["--seed", "1", "--capture-seed", "2"])
    assert from_arguments(FitSettings, namespace) == FitSettings(seed=1)
    assert from_arguments(CaptureSettings, namespace, prefix="capture") == CaptureSettings(seed=2)


def test_options_may_go_without_their_prefix() -> None:
    """One command takes two classes: the prefix is spelled only where their names would collide."""
    shared = set(declarations(FitSettings)) & set(declarations(CaptureSettings))
    assert shared
    parser = argparse.ArgumentParser()
    add_arguments(parser, FitSettings)
    add_arguments(parser, CaptureSettings, prefix="capture", bare=set(declarations(CaptureSettings)) - shared)
    namespace = parser.parse_args(["--seed", "1", "--capture-seed", "2", "--views", "3", "--no-render"])
    assert from_arguments(FitSettings, namespace) == FitSettings(seed=1)
    wanted = CaptureSettings(seed=2, views=3, render=False)
    assert from_arguments(CaptureSettings, namespace, prefix="capture") == wanted


def test_a_value_beyond_its_limits_is_a_user_error_on_the_command_line() -> None:
    """Not a traceback: the words name the command line and the limits."""
    namespace = parser_of(FitSettings).parse_args(["--steps", "-3"])
    with pytest.raises(UserError, match="command line: steps is -3 steps") as caught:
        from_arguments(FitSettings, namespace)
    assert "between 0 and" in caught.value.hint
    with pytest.raises(UserError, match="formation is 'cubist'"):
        from_arguments(FitSettings, parser_of(FitSettings).parse_args(["--formation", "cubist"]))


def test_settings_cannot_be_changed() -> None:
    """What a run was started with stays what it was."""
    with pytest.raises(AttributeError):
        FitSettings().steps = 3  # type: ignore[misc]


def test_a_percent_sign_in_a_help_text_is_no_format() -> None:
    """argparse would try to fill it in."""

    @dataclass(frozen=True)
    class Odd:
        """Odd ones."""

        share: float = setting(0.5, "Share", "100 % of it.", maximum=1)

    assert "100 % of it" in parser_of(Odd).format_help()
