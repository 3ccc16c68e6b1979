"""Make runs with weights of the tars that train.py left on another machine.

    python benchmarks/paper/train.py ... --pack DIR --weights
    python benchmarks/paper/unpack.py DIR/NAME*.tar.gz --into RUNS

The first command leaves NAME.weights.tar.gz, NAME.weights.2.tar.gz and so on, each of at most 15 MiB; the second makes
RUNS/NAME, which `irene.Run.open` takes. Tars of banks may be unpacked with those of weights; banks that did not come
are struck off the manifest. Convolutions and linear layers travel in half precision and all else as it is: a member's
accuracy may move in the fourth digit, and `half_precision` in run.json says so.

What is replayed and not run, as by collect.py, needs no weights: `tar xzf` unpacks it.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from training.packing import networks_of, weight_files
from training.tars import extract

from irene.files import sha256_of, write_json
from irene.run import Run

_PART = re.compile(r"(?P<file>.+)\.(?P<number>\d+)of(?P<count>\d+)")


def unpack(tars: Sequence[Path], into: Path) -> list[Run]:
    """The runs whose tars these are, whole again."""
    into.mkdir(parents=True, exist_ok=True)
    names: dict[str, None] = {}
    for path in tars:
        names |= dict.fromkeys(name.partition("/")[0] for name in extract(path, into))
    return [whole(into / name) for name in names]


def whole(folder: Path) -> Run:
    """Put a run's files together and have its manifest name what is there."""
    if not (folder / "run.json").exists():
        raise SystemExit(
            f"{folder.name}: its run.json is not in these tars; unpack NAME.tar.gz or NAME.weights.tar.gz too"
        )
    join(folder.rglob("*"))
    manifest = json.loads((folder / "run.json").read_text())
    missing = [file for file in weight_files(manifest) if not (folder / file).exists()]
    if missing:
        raise SystemExit(
            f"{folder.name}: {missing[0]} is not in these tars; unpack all of NAME.weights*.tar.gz together"
        )
    for split, entry in manifest["banks"].items():
        entry["file"] = f"banks/{split}.safetensors"  # in tars, also where a run had replaced it (see irene.run)
    for kind in ("banks", "points"):
        found = manifest.get(kind, {})
        manifest[kind] = {name: entry for name, entry in found.items() if (folder / entry["file"]).exists()}
    for entry in [*networks_of(manifest), *manifest["banks"].values()]:
        if "file" in entry:
            entry["sha256"] = sha256_of(folder / entry["file"])
    write_json(folder / "run.json", {**manifest, "half_precision": True})
    return Run.open(folder)


def join(files: Iterable[Path]) -> None:
    """Make FILE of FILE.1of3, FILE.2of3 and FILE.3of3."""
    found: dict[Path, dict[int, Path]] = {}
    counts: dict[Path, int] = {}
    for path in files:
        part = _PART.fullmatch(path.name)
        if part is not None:
            target = path.with_name(part["file"])
            found.setdefault(target, {})[int(part["number"])] = path
            counts[target] = int(part["count"])
    for target, by_number in found.items():
        if len(by_number) != counts[target]:
            raise SystemExit(f"{target}: {len(by_number)} of {counts[target]} parts are here; unpack all tars together")
        target.write_bytes(b"".join(by_number[number].read_bytes() for number in sorted(by_number)))
        for path in by_number.values():
            path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tars", type=Path, nargs="+")
    parser.add_argument("--into", type=Path, required=True)
    arguments = parser.parse_args()
    for run in unpack(arguments.tars, arguments.into):
        print(f"{run.path}: {len(run.members())} members, banks: {', '.join(run.manifest['banks']) or 'none'}")


if __name__ == "__main__":
    main()
