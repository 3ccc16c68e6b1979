"""Make runs of the tars that train.py left on another machine.

    python benchmarks/paper/train.py ... --pack DIR --weights
    python benchmarks/paper/unpack.py DIR/NAME*.tar.gz --into RUNS
    python benchmarks/paper/unpack.py DIR/*.tar.gz --into STUDY --to-replay

The first command leaves NAME.tar.gz and NAME.weights.tar.gz, NAME.weights.2.tar.gz and so on, each of at most 16 MiB;
the second makes RUNS/NAME, which `irene.Run.open` takes. Tars of banks may be unpacked with those of weights; banks
that did not come are struck off the manifest. Convolutions and linear layers travel in half precision and all else as
it is: a member's accuracy may move in the fourth digit, and `half_precision` in run.json says so.

What is replayed and not run, as by collect.py, needs no weights: the third command unpacks it, and leaves tars of
weights alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from training.packing import networks_of, weight_files
from training.tars import extract, join

from irene.files import sha256_of, write_json
from irene.run import Run


def unpack(tars: Sequence[Path], into: Path) -> list[Run]:
    """The runs whose tars these are, whole again."""
    return [whole(into / name) for name in unpack_files(tars, into)]


def unpack_files(tars: Sequence[Path], into: Path) -> list[str]:
    """Put the files of these tars into a folder, each whole again; the names of their runs."""
    into.mkdir(parents=True, exist_ok=True)
    names: dict[str, None] = {}
    for path in tars:
        names |= dict.fromkeys(name.partition("/")[0] for name in extract(path, into))
    for name in names:
        if not (into / name / "run.json").exists():
            raise SystemExit(
                f"{name}: its run.json is not in these tars; unpack NAME.tar.gz or NAME.weights.tar.gz too"
            )
        join((into / name).rglob("*"))
    return list(names)


def whole(folder: Path) -> Run:
    """Have the manifest of a run name what is there."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tars", type=Path, nargs="+")
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--to-replay", action="store_true", help="banks alone, which collect.py and beyond.py replay")
    arguments = parser.parse_args()
    if arguments.to_replay:
        names = unpack_files([path for path in arguments.tars if ".weights." not in path.name], arguments.into)
        print(f"{arguments.into}: {', '.join(names)}")
        return
    for run in unpack(arguments.tars, arguments.into):
        print(f"{run.path}: {len(run.members())} members, banks: {', '.join(run.manifest['banks']) or 'none'}")


if __name__ == "__main__":
    main()
