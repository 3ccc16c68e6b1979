"""How many images a second are read from a folder, by this process alone and by readers: JSON on standard output.

python benchmarks/readers.py [--readers 1 2] [--images 2400] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import torch
from documents import machine
from PIL import Image

from irene.data import Samples, load
from irene.data.loader import Loader
from irene.runtime.bench import hardware

SIDE, SIZE = 400, 224  # pixels of the files, and of what is read from them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--images", type=int, default=2400)
    parser.add_argument("--rounds", type=int, default=3, help="each in turn; the medians count")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        write_images(Path(folder), asked.images)
        samples = load(f"folder:{folder}", size=SIZE).train
        counts = [0, *asked.readers]
        rounds = [{readers: images_per_second(samples, readers) for readers in counts} for _ in range(asked.rounds)]
    speeds = {readers: statistics.median(found[readers] for found in rounds) for readers in counts}
    rows = [{"readers": n, "images_per_s": round(speeds[n]), "ratio": round(speeds[n] / speeds[0], 2)} for n in counts]
    print(json.dumps({"hardware": machine(hardware(torch.device("cpu"))), "rows": rows}, indent=1))


def write_images(folder: Path, count: int) -> None:
    """Two classes of JPEG files, smooth as photographs are."""
    rng = np.random.default_rng(0)
    for index in range(count):
        path = folder / f"class{index % 2}" / f"{index}.jpg"
        path.parent.mkdir(exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8))
        coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path, quality=90)


def images_per_second(samples: Samples, readers: int) -> float:
    loader = Loader(samples, batch_size=128, device="cpu", shuffle=True, readers=readers)
    start = perf_counter()
    for _ in loader.epoch(0):
        pass
    return len(samples) / (perf_counter() - start)


if __name__ == "__main__":
    main()
