"""`irene doctor`: what is installed, what is missing, and what irene would run on."""

from __future__ import annotations

import platform
import re
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from irene.cli.output import speaking
from irene.cli.params import Json

DISTRIBUTION = "irene-ensemble"
_REQUIREMENT = re.compile(r"""(?P<name>[A-Za-z0-9._-]+).*;.*extra\s*==\s*['"](?P<extra>[^'"]+)['"]""")


def doctor(json: Json = False) -> None:
    """Show what is installed, which extras are missing, and which device is used."""
    from irene.cli.tables import pairs

    with speaking(json) as output:
        found = examine()
        table = pairs(_lines(found))
        output.result(found, lambda screen: screen.print(table))


def examine() -> dict[str, Any]:
    """Everything the doctor looks at, as plain values."""
    import torch

    from irene import __version__
    from irene.devices import machine_memory, pick_device
    from irene.processes import cores

    device = pick_device("auto")
    cuda = device.type == "cuda"
    return {
        "irene": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": str(torch.__version__),
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if cuda else None,
        "threads": torch.get_num_threads(),
        "cores": cores(),
        "memory": machine_memory(),
        "extras": extras(),
        "folder": str(Path.cwd()),
        "writable": can_write(Path.cwd()),
    }


def extras() -> dict[str, dict[str, Any]]:
    """Each extra with the versions of its packages, None for those that are not installed."""
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {}  # run from a source tree, which has no metadata
    found: dict[str, dict[str, Any]] = {}
    for requirement in requirements:
        parts = _REQUIREMENT.match(requirement)
        if parts is not None and parts["name"] != DISTRIBUTION:
            found.setdefault(parts["extra"], {})[parts["name"]] = version(parts["name"])
    return {
        name: {
            "installed": None not in packages.values(),
            "packages": packages,
            "install": f"pip install '{DISTRIBUTION}[{name}]'",
        }
        for name, packages in found.items()
    }


def version(package: str) -> str | None:
    """The installed version of a package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def can_write(folder: Path) -> bool:
    """Whether a file can be made in a folder."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    from irene.numbers import si

    device = f"{found['device']} ({found['gpu']})" if found["gpu"] else found["device"]
    lines = [
        ("irene", found["irene"]),
        ("python", f"{found['python']} on {found['platform']}"),
        ("torch", found["torch"]),
        ("device", device),
        ("CPU", _cpu(found["threads"], found["cores"])),
        *([("memory", f"{si(found['memory'])}B")] if found["memory"] else []),
        ("folder", f"{found['folder']}: {'can be written' if found['writable'] else 'CANNOT be written'}"),
    ]
    for name, extra in found["extras"].items():
        there = [f"{package} {version}" for package, version in extra["packages"].items() if version]
        missing = [package for package, version in extra["packages"].items() if not version]
        words = ", ".join(there)
        if missing:
            words += f"{'; ' if there else ''}missing {', '.join(missing)}: {extra['install']}"
        lines.append((f"extra {name}", words))
    if not found["extras"]:
        lines.append(("extras", f"unknown: {DISTRIBUTION} is not installed, only imported"))
    return lines


def _cpu(threads: int, cores: int) -> str:
    too_many = f": more than may run at once, so set OMP_NUM_THREADS={cores}" if threads > cores else ""
    return f"{threads} threads, {cores} cores{too_many}"
