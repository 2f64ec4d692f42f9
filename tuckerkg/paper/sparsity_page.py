"""The part of RESULTS.md on where an encoder over tables pays: by how many facts an entity has, on thinner graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuckerkg.paper.markdown import as_table, short, signed
from tuckerkg.paper.question_page import TITLES
from tuckerkg.types import JsonObject

GRAPHS = {"all": "all facts", "thin": "1 to 3 facts left", "half": "half of all facts"}
MODELS = {"off": "TuckER alone", "on": "TGCN-TuckER", "paths": "from the question"}
PLACES = {"asked": "entity that is asked about", "answer": "answer"}
COLOURS = {"off": "#777777", "on": "#d1495b", "paths": "#0b6e99"}
PAYS = 0.005  # of MRR, from which on a difference is named


def sparsity_section(rows: Sequence[JsonObject]) -> str:
    """From what ``scripts/measure_sparsity.py`` wrote."""
    cells: dict[tuple[str, str, str], JsonObject]
    cells = {(row["dataset"], row["graph"], row["model"]): row for row in rows}
    graphs: list[tuple[str, str]] = list(dict.fromkeys((row["dataset"], row["graph"]) for row in rows))
    overall: list[list[str]] = []
    binned: list[list[str]] = []
    for dataset, graph in graphs:
        found = {model: cells[dataset, graph, model] for model in MODELS if (dataset, graph, model) in cells}
        without = found["on"].get("without_messages") if "on" in found else None
        some = next(iter(found.values()))
        overall.append(
            [
                TITLES.get(dataset, dataset), GRAPHS[graph], f"{some['train_facts']:,}", f"{some['questions']:,}",
                *(short(found[model]["mrr"]) if model in found else "–" for model in ("off", "on")), short(without),
                short(found["paths"]["mrr"]) if "paths" in found else "–",
                " / ".join(f"{found[model]['cpu_minutes']:.0f}" if model in found else "–" for model in MODELS),
            ]
        )  # fmt: skip
        binned += [line for place in PLACES for line in _by_facts(dataset, graph, place, found)]
    header = ["", "training facts", "how many", "questions", *list(MODELS.values())[:2], "messages off"]
    header += [MODELS["paths"], "CPU minutes"]
    by_facts = ["", "training facts", "facts of the", "0", "1", "2", "4", "8", "16", "32", "64 and more"]
    return (
        "## Where an encoder over tables pays\n\n"
        "TuckER alone, TGCN in front of it with messages from the first step on, and messages from the question, each "
        "trained for about as long on three graphs: with all training facts; with every tenth entity left with one to "
        "three of its facts, and questions about these entities; with a random half of all facts. Test MRR, filtered "
        "by all that the whole dataset knows; short runs of one seed (`scripts/measure_sparsity.py`). `messages off` "
        "are TGCN's weights without any message.\n\n"
        + as_table(header, overall)
        + "\n\n"
        + _verdict(cells, graphs)
        + "\n\nThe same by how many training facts an entity has left, from so many on: TuckER alone / TGCN-TuckER / "
        "from the question.\n\n" + as_table(by_facts, binned)
    )


def _by_facts(dataset: str, graph: str, place: str, found: dict[str, JsonObject]) -> list[list[str]]:
    """A line of the second table; none before anything is measured."""
    parts = {model: {part["facts"]: short(part["mrr"]) for part in row[place]} for model, row in found.items()}
    cells = []
    for facts in (0, 1, 2, 4, 8, 16, 32, 64):
        told = [parts.get(model, {}).get(facts, "–") for model in MODELS]
        cells.append("–" if set(told) == {"–"} else " / ".join(told))
    return [[TITLES.get(dataset, dataset), GRAPHS[graph], PLACES[place], *cells]]


def _verdict(cells: dict[tuple[str, str, str], JsonObject], graphs: Sequence[tuple[str, str]]) -> str:
    """When to use what, in sentences made of the rows."""
    gains: list[tuple[float, str]] = []
    best: dict[str, list[str]] = {}
    for dataset, graph in graphs:
        found = {model: cells[dataset, graph, model]["mrr"] for model in MODELS if (dataset, graph, model) in cells}
        where = f"{TITLES.get(dataset, dataset)} with {GRAPHS[graph]}"
        if {"on", "off"} <= set(found):
            gains.append((found["on"] - found["off"], where))
        if len(found) == len(MODELS):
            best.setdefault(max(found, key=lambda model: found[model]), []).append(where)
    paid = [f"{where} ({signed(gain)})" for gain, where in gains if gain > PAYS]
    said = [f"TGCN over tables is ahead of its decoder by more than {short(PAYS)} on {_listed(paid)}."]
    said += [f"{MODELS[model]} is best on {_listed(places)}." for model, places in best.items()]
    return " ".join(each[0].upper() + each[1:] for each in said)


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) if words else "none of these graphs"


def draw_sparsity(rows: Sequence[JsonObject], panels: Any) -> None:
    """MRR over the facts of the entity that is asked about; ``panels`` have a row per dataset, a column per graph."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    for row in rows:
        axes = panels[datasets.index(row["dataset"])][list(GRAPHS).index(row["graph"])]
        points = [(max(part["facts"], 0.5), part["mrr"]) for part in row["asked"]]
        axes.plot(*zip(*points, strict=True), "o-", c=COLOURS[row["model"]], label=MODELS[row["model"]], markersize=3)
        axes.set_title(f"{TITLES.get(row['dataset'], row['dataset'])}, {GRAPHS[row['graph']]}", fontsize=8)
        axes.set_xscale("log", base=2)


def sparsity_file(results: Path) -> Path:
    """Where the study is."""
    return results / "studies" / "sparsity.json"
