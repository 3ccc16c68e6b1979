"""What runs tell, added to what results.json and figures.json say already of others.

Whatever is made of several runs stays as it is where the runs at hand are fewer: their banks are not here to be joined.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from names import ALL_IMAGES, INDEPENDENT, IRENE, SIZES, file_name, parts_of, without_seed

Entry = dict[str, Any]
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Place = Callable[[Any], Any]  # of what tells entries apart: something to sort by
ROW = ("dataset", "backbone", "epochs", "images", "method", "members", "seed")  # what no two rows have in common
CASCADE = ("dataset", "epochs", "training", "members")
POOL = ("dataset", "epochs", "training", "pool")
MEMBERS = ("dataset", "epochs", "training", "backbone")  # those who taught or were taught
TRAINED = ("backbone", "at_once")
ENOUGH = 3  # seeds of a figure: any more count for less than epochs do


def read(path: Path) -> Entry:
    """What a file says; nothing where there is none."""
    said: Entry = json.loads(path.read_text()) if path.exists() else {}
    return said


def rates(results: Entry) -> dict[str, float]:
    """FLOPs a second of the fastest training of each backbone that had the card to itself."""
    found: dict[str, float] = {}
    for one in results.get("speed", []):
        found[one["backbone"]] = max(1e12 * one["tflops"], found.get(one["backbone"], 0.0))
    return found


def results(standing: Entry, found: Entry) -> Entry:
    """All parts of results.json; utilities and costs that depend on several rows are still those of each side.

    `speed` is found by run, None where the run shared the card. `time` has been added up by who knows the runs.
    """

    def listed(part: str, keys: Iterable[str], choose: Callable[[Entry, Entry], Entry], place: Place) -> list[Entry]:
        one, other = (by(side.get(part, []), keys) for side in (standing, found))
        return list(joined(one, other, choose, place).values())

    def named(part: str, choose: Callable[[Any, Any], Any], place: Place = str) -> dict[str, Any]:
        return joined(standing.get(part, {}), found.get(part, {}), choose, place)

    speeds = joined({one["run"]: one for one in standing.get("speed", [])}, found["speed"], newer)
    return {
        "rows": listed("rows", ROW, newer, like_the_run),
        "against": named("against", fuller, parts_of),
        "warm_started": named("warm_started", fuller, parts_of),
        "asked": named("asked", longer),
        "small_first": listed("small_first", CASCADE, fuller, among_cascades),
        "searched": listed("searched", POOL, larger, among_cascades),
        "one_by_one": named("one_by_one", newer),
        "taught": listed("taught", MEMBERS, fuller, lambda key: key[:2]),
        "teachers": listed("teachers", MEMBERS, fuller, lambda key: key[:2]),
        "training": named("training", newer),
        "time": found["time"],
        "speed": [one for one in speeds.values() if one is not None],
        "side_by_side": listed("side_by_side", TRAINED, faster, lambda key: key),
    }


def figures(standing: Entry, found: Entry) -> Entry:
    """By study and setting: of each data set and backbone the one that is worth most, as collect.py chooses."""

    def places(by_slug: Entry) -> dict[tuple[str, str], tuple[str, Entry]]:
        return {parts_of(slug)[:2]: (slug, figure) for slug, figure in by_slug.items()}

    return {
        name: dict(joined(places(standing.get(name, {})), places(by_slug), worthier).values())
        for name, by_slug in found.items()
    }


def joined(
    standing: Mapping[Key, Value],
    found: Mapping[Key, Value],
    choose: Callable[[Value, Value], Value],
    place: Place = lambda key: key,
) -> dict[Key, Value]:
    """All entries. Those that stand keep their order; a new one comes before the first whose place is a later one."""
    keys = list(standing)
    for key in found:
        if key not in standing:
            later = (index for index, other in enumerate(keys) if place(other) > place(key))
            keys.insert(next(later, len(keys)), key)
    both = standing.keys() & found.keys()
    return {
        key: choose(standing[key], found[key]) if key in both else (found if key in found else standing)[key]
        for key in keys
    }


def by(entries: Iterable[Entry], keys: Iterable[str]) -> dict[tuple[Any, ...], Entry]:
    """Entries by what tells them apart; there is one pool of independent members, which grows with the runs."""

    def told(entry: Entry, key: str) -> Any:
        if key == "pool" and entry["training"] == INDEPENDENT:
            return None
        return tuple(entry[key]) if isinstance(entry[key], list) else entry[key]

    return {tuple(told(entry, key) for key in keys): entry for entry in entries}


def newer(standing: Value, found: Value) -> Value:
    return found


def longer(standing: list[Any], found: list[Any]) -> list[Any]:
    return found if len(found) >= len(standing) else standing


def larger(standing: Entry, found: Entry) -> Entry:
    """What is of more seeds, or of as many and more members to choose from."""
    one, other = ((side["seeds"], len(side["pool"])) for side in (standing, found))
    return found if other >= one else standing


def faster(standing: Entry, found: Entry) -> Entry:
    """Others may have been at the card as well."""
    return max(standing, found, key=lambda side: float(side["tflops"]))


def fuller(standing: Entry, found: Entry) -> Entry:
    """What is of no fewer seeds; parts that have seeds of their own are judged by these."""
    chosen = dict(found if found.get("seeds", 0) >= standing.get("seeds", 0) else standing)
    for name in dict.fromkeys([*standing, *found]):
        parts = [side[name] for side in (found, standing) if isinstance(side.get(name), dict) and "seeds" in side[name]]
        if parts:
            chosen[name] = max(parts, key=lambda part: part["seeds"])
    return chosen


def worthier(standing: tuple[str, Entry], found: tuple[str, Entry]) -> tuple[str, Entry]:
    """The figure of more members, seeds and epochs; of a setting's two, the found one where it leaves out nothing."""
    (one, shows), (other, has) = (worth(*side) for side in (standing, found))
    leaves_out = any(less < more for less, more in zip(has, shows, strict=True))
    return standing if other < one or (other == one and leaves_out) else found


def worth(slug: str, figure: Entry) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What figures of several settings are chosen by, and how much one shows: parts, those of several seeds, runs."""
    runs = list(runs_in(figure))
    points = [point for of_method in figure.get("methods", {}).values() for point in of_method]
    size = max([*figure.get("members", []), *(point["members"] for point in points)], default=0)
    seeds = max(Counter(map(without_seed, runs)).values())
    of_several = sum(point["accuracy"]["spread"] is not None for point in points)
    shows = (len(points) + len(figure.get("variants", {})), of_several, len(runs))
    return (size, min(seeds, ENOUGH), parts_of(slug)[2]), shows


def runs_in(figure: Any) -> Iterator[str]:
    """The names of all runs that a figure names."""
    if isinstance(figure, dict):
        yield from figure.get("runs", [])
        for part in figure.values():
            yield from runs_in(part)


def among_cascades(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dataset, epochs, training, _ = key
    return dataset, epochs, training != INDEPENDENT


def like_the_run(key: tuple[Any, ...]) -> str:
    """What sorts as the name of the run that a row is of: woc and most single networks are of an average ensemble."""
    dataset, backbone, epochs, images, method, _, seed = key
    kind = method.partition(",")[0].replace("woc", "average").removesuffix(" last first")
    kind = kind if backbone in SIZES else kind.replace("single", "average")
    kind = kind.replace(IRENE, "irene").replace(" of ", "-t").replace(" ", "-") + "-full" * (images >= ALL_IMAGES)
    return f"{file_name(dataset)}-{'_'.join(dict.fromkeys(backbone.split('+')))}-{kind}-s{seed}-e{epochs}"
