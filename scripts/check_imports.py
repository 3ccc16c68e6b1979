"""Check that imports inside the package point one way: from higher layers to lower ones.

    python scripts/check_imports.py [PACKAGE_FOLDER]

Every import counts, wherever it stands: at the top of a file, in a function, under TYPE_CHECKING, or as
`import_module("irene...")`. Prints `file:line: reason` for each violation and exits with 1 if there is one.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

# Lowest first. A module may import from its own layer and from those before it.
LAYERS = (
    ("errors", "devices", "files", "limits", "tensor_files", "types", "numbers", "pictures", "processes"),
    ("models", "data", "halting", "metrics"),
    ("cascade", "mixture", "bank", "bank_files", "point", "point_words", "run", "run_files", "run_manifest"),
    ("calibration",),
    ("training", "runtime"),
    ("evaluation",),
    ("estimators", "fitting", "imported"),
    ("serving",),
    ("cli",),
)
# Rooms that never import each other, whatever their layers.
APART = (frozenset({"training", "runtime"}), frozenset({"training", "serving"}), frozenset({"evaluation", "serving"}))
# What the package's own `__init__` defines before it imports anything, so that every module may ask for it.
ROOT_NAMES = ("__version__",)

LAYER_OF = {room: layer for layer, rooms in enumerate(LAYERS) for room in rooms}
PACKAGE = Path(__file__).resolve().parents[1] / "src" / "irene"


def violations(package: Path) -> list[str]:
    """Name every import of the package that points the wrong way, as `file:line: reason`."""
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        room = parts[0]
        if room in ("__init__", "__main__"):  # the front door sees the whole house
            continue
        if room not in LAYER_OF:
            found.append(f"{path}:1: {room} has no layer: give it one in LAYERS of scripts/check_imports.py")
            continue
        for line, target in imported_rooms(path, (package.name, *parts[:-1])):
            reason = why_not(room, target)
            if reason:
                found.append(f"{path}:{line}: {reason}")
    return found


def why_not(room: str, target: str) -> str:
    """Say why `room` may not import `target`; nothing if it may."""
    if not target:
        return f"{room} imports the package itself: import from the module that defines the name"
    if target not in LAYER_OF:
        return f"{room} imports {target}, no module with a layer: import from where the name is defined"
    if LAYER_OF[target] > LAYER_OF[room]:
        return f"{room} imports {target}, which lies above it"
    if {room, target} in APART:
        return f"{room} imports {target}: these two never import each other"
    return ""


def imported_rooms(path: Path, containing: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yield line and room of every import from the package; the room of a bare `import irene` is ""."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if not isinstance(node, ast.stmt | ast.expr):
            continue
        for dotted in imported_names(node, containing):
            top, _, rest = dotted.partition(".")
            room = rest.partition(".")[0]
            if top == containing[0] and room not in ROOT_NAMES:
                yield node.lineno, room


def imported_names(node: ast.stmt | ast.expr, containing: tuple[str, ...]) -> list[str]:
    """Give the absolute dotted names that one statement or call imports."""
    match node:
        case ast.Import(names=names):
            return [name.name for name in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            base = containing[: len(containing) - level + 1] if level else ()
            prefix = ".".join((*base, *([module] if module else [])))
            return [f"{prefix}.{name.name}" for name in names]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [name]
    return []


def main() -> int:
    """Print the violations of the package folder given, or of this repository's."""
    package = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE
    if not package.is_dir():
        print(f"{package}: expected the package's folder, found none")
        return 1
    found = violations(package)
    print("\n".join(found) if found else f"imports of {package.name} point one way")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
