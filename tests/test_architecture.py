"""The house's rules that a machine can check: who imports what, file sizes, stdout, work at import, constants.

DESIGN.md ("Who may import what") and STYLE.md say why.
"""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from splat_engine.formats import conventions

ROOT = Path(__file__).resolve().parents[1]
LINES_MAX = 800

# Layer to the packages it may import besides the standard library and itself. The longest prefix of a module's name
# finds its layer; "splat_engine.*" is what lies beside the packages: the command line and what it is made of.
NUMPY = "numpy"
FORMATS, NATIVE, OPS, FIT = (
    "splat_engine.formats",
    "splat_engine.native",
    "splat_engine.ops",
    "splat_engine.fit",
)
ALLOWED: dict[str, set[str]] = {
    "splat_engine": set(),
    FORMATS: {NUMPY},
    NATIVE: {NUMPY, FORMATS},
    OPS: {NUMPY, "torch", NATIVE, FORMATS, "cuda"},
    f"{OPS}.reference": {"torch", FORMATS},
    FIT: {NUMPY, "torch", OPS, FORMATS, NATIVE, "OpenEXR", "PIL", "scipy"},
    "splat_engine.*": {NUMPY, "torch", FORMATS, NATIVE, OPS, FIT, "OpenEXR", "PIL", "scipy", "tqdm"},
    "addon": {
        "bpy",
        "mathutils",
        "bpy_extras",
        "gpu",
        "gpu_extras",
        "bl_ui",
        "bl_operators",
        "bl_math",
        "idprop",
        NUMPY,
        FORMATS,
        NATIVE,
    },
}
# The add-on's folders and files, each above those that it may import.
ADDON_FROM_BELOW = (
    "blender package reports capture scene settings engine runs edit display operators panels commands registration"
).split()
# Modules of the add-on that must not know Blender: they are tested without it.
WITHOUT_BPY = (
    "addon.runs.session",
    "addon.runs.curve",
    "addon.engine.child_process",
    "addon.engine.engine_process",
    "addon.engine.setup",
    "addon.runs.adviser",
    "addon.runs.earlier_runs",
    "addon.runs.run_follower",
    "addon.runs.running",
)
# Who may write to stdout: the commands. Everyone else logs, or returns.
PRINTERS = (
    "splat_engine.cli",
    "splat_engine.report",
    "addon.commands.headless",
    "addon.commands.event_stream",
    "addon.__main__",
    "tools",
)
# Calls that are work: none of them may happen while a module is imported.
WORK = {
    "print",
    "open",
    "exec",
    "eval",
    "input",
    "run",
    "Popen",
    "check_call",
    "check_output",
    "system",
    "popen",
}
WORK |= {
    "urlopen",
    "urlretrieve",
    "CDLL",
    "LoadLibrary",
    "mkdir",
    "write_text",
    "write_bytes",
    "register_class",
}
WORK |= {"read_text", "read_bytes", "Thread", "sleep", "basicConfig", "synchronize", "is_available"}


def modules() -> dict[str, Path]:
    """Returns dotted name to file of every module of the product."""
    found = {}
    for package in ("splat_engine", "addon"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def is_within(name: str, package: str) -> bool:
    """Tells whether a dotted name is a package or lies in it."""
    return name == package or name.startswith(package + ".")


def layer_of(module: str) -> str:
    """Returns the layer that a module belongs to."""
    layer = max((layer for layer in ALLOWED if is_within(module, layer)), key=len)
    return "splat_engine.*" if layer == "splat_engine" != module else layer


def imports_of(module: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yields (line, dotted name) of everything imported, at the top or inside a function; types too."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            source = ".".join(part for part in (base, node.module or "") if part)
            for alias in node.names:
                name = f"{source}.{alias.name}"
                yield node.lineno, name if name in MODULES else source


def is_allowed(module: str, name: str) -> bool:
    """Tells whether a module may import a name."""
    layer = layer_of(module)
    if name.partition(".")[0] in sys.stdlib_module_names:
        return True
    if name == "splat_engine" or layer_of_or_none(name) == layer:
        return True
    # A layer inside another (reference in ops) is reached by the outer one, not the other way round.
    ours = name.partition(".")[0] in ("splat_engine", "addon")
    return any(is_within(name, package) for package in ALLOWED[layer] | ({layer} if ours else set()))


def layer_of_or_none(name: str) -> str | None:
    """Returns the layer of one of our modules, None for what is not ours."""
    return layer_of(name) if name.partition(".")[0] in ("splat_engine", "addon") else None


def test_the_modules_are_found() -> None:
    """The other tests look at something."""
    assert {"splat_engine", FORMATS, f"{FORMATS}.ply", f"{NATIVE}.library"} <= MODULES.keys()


@pytest.mark.parametrize("module", MODULES)
def test_arrows_point_one_way(module: str) -> None:
    """Each module imports only what DESIGN.md allows its layer."""
    wrong = [
        f"line {line}: {name}"
        for line, name in imports_of(module, MODULES[module])
        if not is_allowed(module, name)
    ]
    assert not wrong, f"{module} may not import " + ", ".join(wrong)


def part_of(module: str) -> str:
    """Returns the part of the add-on that a module belongs to."""
    return module.split(".")[1]


def test_each_part_of_the_addon_has_its_place() -> None:
    """None is forgotten below, and none is left that is gone."""
    parts = {part_of(name) for name in MODULES if is_within(name, "addon") and name != "addon"}
    assert parts - {"__main__"} == set(ADDON_FROM_BELOW)


@pytest.mark.parametrize("part", ADDON_FROM_BELOW)
def test_parts_of_the_addon_stand_on_those_below(part: str) -> None:
    """Inside the add-on, too, arrows point one way."""
    below = ADDON_FROM_BELOW[: ADDON_FROM_BELOW.index(part) + 1]
    inside = [name for name in MODULES if is_within(name, f"addon.{part}")]
    wrong = [
        f"{module}, line {line}: {name}"
        for module in inside
        for line, name in imports_of(module, MODULES[module])
        if name.startswith("addon.") and part_of(name) not in below
    ]
    assert inside and not wrong


@pytest.mark.parametrize("module", [name for name in MODULES if any(is_within(name, p) for p in WITHOUT_BPY)])
def test_logic_of_the_addon_knows_no_blender(module: str) -> None:
    """The state machine and the process handling take their collaborators as arguments."""
    assert not [
        name
        for _, name in imports_of(module, MODULES[module])
        if name.partition(".")[0] in ("bpy", "mathutils")
    ]


@pytest.mark.parametrize(
    ("module", "name", "allowed"),
    [
        (f"{FORMATS}.ply", "torch", False),
        (f"{FORMATS}.ply", f"{NATIVE}.library", False),
        (f"{FORMATS}.ply", f"{FORMATS}.files", True),
        (f"{NATIVE}.library", f"{FORMATS}.errors", True),
        (f"{NATIVE}.library", "torch", False),
        (f"{OPS}.project", f"{OPS}.reference.project", True),
        (f"{OPS}.reference.project", f"{OPS}.project", False),
        (f"{OPS}.reference.project", f"{NATIVE}.library", False),
        (f"{OPS}.project", f"{FIT}.loop", False),
        (f"{FIT}.loop", "splat_engine.cli", False),
        ("addon.scene.splat_object", "torch", False),
        ("addon.scene.splat_object", f"{FIT}.loop", False),
        ("addon.scene.splat_object", f"{FORMATS}.splats", True),
        ("addon.scene.splat_object", "scipy", False),
        (f"{FORMATS}.ply", "addon.scene.splat_object", False),
    ],
)
def test_the_rule_itself(module: str, name: str, allowed: bool) -> None:
    """The arrows of DESIGN.md, one by one: this test would notice if the table were loosened."""
    assert is_allowed(module, name) == allowed


SOURCES = sorted(path for path in (ROOT / "csrc").rglob("*") if path.suffix in {".h", ".cpp", ".cu", ".cuh"})


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_include_arrows(path: Path) -> None:
    """csrc/include includes nothing of cpu or cuda; cpu and cuda only themselves and include."""
    folder = path.relative_to(ROOT / "csrc").parts[0]
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE):
        places = [path.parent / name, ROOT / "csrc" / "include" / name, ROOT / "csrc" / name]
        found = next((place.resolve() for place in places if place.is_file()), None)
        assert found is not None, f"{path.name} includes {name}, which is not in csrc"
        target = found.relative_to(ROOT / "csrc").parts[0]
        assert target in ("include", folder), f"{folder}/{path.name} may not include {target}/{name}"


def test_csrc_includes_no_torch() -> None:
    """The C ABI knows no torch."""
    for path in SOURCES:
        assert not re.search(r"#\s*include\s*[<\"](torch|ATen|c10)/", path.read_text(encoding="utf-8")), path


LONG = [path for path in [*MODULES.values(), *SOURCES, *sorted((ROOT / "tools").rglob("*.py"))]]
LONG += sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("path", LONG, ids=[str(path.relative_to(ROOT)) for path in LONG])
def test_no_file_is_beyond_reading(path: Path) -> None:
    """About 400 lines is long, 800 is a redesign."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_MAX


@pytest.mark.parametrize(
    "module", [name for name in MODULES if not any(is_within(name, p) for p in PRINTERS)]
)
def test_only_commands_write_to_stdout(module: str) -> None:
    """stdout belongs to the event stream: no print, no sys.stdout elsewhere."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    lines = [
        n.lineno for n in ast.walk(tree) if isinstance(n, ast.Call) and name_of(n.func) in ("print", "pprint")
    ]
    lines += [
        n.lineno for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n) == "sys.stdout"
    ]
    assert not lines, f"{module} writes to stdout in lines {lines}"


def name_of(function: ast.expr) -> str:
    """Returns the last word of what is called."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def calls_at_import(node: ast.AST) -> Iterator[ast.Call]:
    """Yields the calls that run when a module is imported: not those in functions, nor under __main__ or TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in [*child.decorator_list, *child.args.defaults]:
                yield from calls_at_import(ast.Expr(decorator))
            continue
        if isinstance(child, ast.Lambda):
            continue
        if isinstance(child, ast.If) and (
            "__main__" in ast.unparse(child.test) or "TYPE_CHECKING" in ast.unparse(child.test)
        ):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from calls_at_import(child)


@pytest.mark.parametrize("module", MODULES)
def test_importing_does_no_work(module: str) -> None:
    """No process, file, network, library, thread, class registration or output while a module is imported."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    wrong = [
        f"line {c.lineno}: {ast.unparse(c)[:60]}" for c in calls_at_import(tree) if name_of(c.func) in WORK
    ]
    assert not wrong, f"{module} works while it is imported: {wrong}"


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("import subprocess\nsubprocess.run(['x'])", ["run"]),
        ("x = [open('f') for _ in range(3)]", ["open", "range"]),
        ("class A:\n    y = print()\n    def f(self): print()", ["print"]),
        ("def f(x=open('f')): print()", ["open"]),
        ("if __name__ == '__main__':\n    print()", []),
        ("f = lambda: print()", []),
    ],
)
def test_the_search_for_work_itself(code: str, calls: list[str]) -> None:
    """It sees what runs at import, and only that."""
    assert [name_of(call.func) for call in calls_at_import(ast.parse(code))] == calls


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_its_subject(module: str) -> None:
    """In its first line, as one sentence."""
    text = ast.get_docstring(ast.parse(MODULES[module].read_text(encoding="utf-8"))) or ""
    assert text.partition("\n")[0].strip(), f"{module} has no docstring"


def test_nothing_is_caught_and_dropped() -> None:
    """No bare except, and no handler of everything that only passes."""
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, f"{module}:{node.lineno}: bare except"
                broad = ast.unparse(node.type) in ("Exception", "BaseException")
                silent = all(isinstance(item, ast.Pass) for item in node.body)
                assert not (broad and silent), f"{module}:{node.lineno}: everything is caught and dropped"


# Name in csrc/include to the same number in conventions.py.
SHARED_CONSTANTS = {
    "ALPHA_MAX": conventions.ALPHA_MAX,
    "ALPHA_MIN": conventions.ALPHA_MIN,
    "TRANSMITTANCE_STOP": conventions.TRANSMITTANCE_MIN,
    "SH_DEGREE_MAX": conventions.SH_DEGREE_MAX,
    "SH_0": conventions.SH_C0,
}


def header_constants() -> dict[str, str]:
    """Returns name to expression of the constants in csrc/include."""
    headers = sorted((ROOT / "csrc" / "include").glob("*.h"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in headers)
    return dict(re.findall(r"^\s*(?:inline\s+)?constexpr\s+\w+\s+(\w+)\s*=\s*([^;]+);", text, re.MULTILINE))


@pytest.mark.parametrize("name", SHARED_CONSTANTS)
def test_kernels_and_python_share_their_constants(name: str) -> None:
    """The headers and conventions.py state the same numbers."""
    expression = header_constants()[name]
    assert re.fullmatch(r"[-+*/().0-9eE ]+", expression), f"{name} = {expression} is not a plain number"
    assert math.isclose(eval(expression), SHARED_CONSTANTS[name], rel_tol=1e-15)


def test_nothing_built_is_committed() -> None:
    """Libraries, wheels, environments and outputs stay out of the repository."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is not a git checkout")
    names = listed.stdout.splitlines()
    built = [
        n
        for n in names
        if re.search(r"\.(so|dll|dylib|o|pyc|whl|blend1)$|(^|/)(\.venv|out|dist|__pycache__)/", n)
    ]
    assert names and not built
