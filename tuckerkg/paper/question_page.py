"""The first part of RESULTS.md and of the README's table: messages from the question beside the paper's TGCN rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from tuckerkg.paper.claims import Outcomes
from tuckerkg.paper.markdown import as_table, number, short, signed, with_deviation
from tuckerkg.paper.reproduce import Outcome
from tuckerkg.paper.rows import METRICS
from tuckerkg.paper.trust_page import trust_file
from tuckerkg.types import JsonObject

TITLES = {"fb15k-237": "FB15k-237", "wn18rr": "WN18RR"}
NBFNET = {"fb237_v1": 0.422, "fb237_v2": 0.514, "WN18RR_v1": 0.741, "WN18RR_v2": 0.704}
"""All-entity MRR on the inductive test split, as A*Net's paper (arXiv:2206.04798, table 11) and its authors' notes have
it for NBFNet."""


@dataclass(frozen=True)
class Studies:
    """What was measured beside the rows.

    Blends by dataset, answers for entities that training never saw, how far probabilities hold, whether explanations
    name the edges that matter, classes of nodes and graphs, where an encoder over tables pays, and the paper's recipe
    as printed.
    """

    blends: Mapping[str, JsonObject]
    unseen: Sequence[JsonObject]
    trust: Sequence[JsonObject] = ()
    explaining: JsonObject | None = None
    classes: Sequence[JsonObject] = ()
    sparsity: Sequence[JsonObject] = ()
    printed: Sequence[JsonObject] = ()

    @classmethod
    def read(cls, results: Path) -> Studies:
        """From the files of ``tuckerkg blend --test --json`` and of the scripts, where they are."""
        folder = results / "studies"
        blends = {dataset: folder / f"blend-{dataset}.json" for dataset in TITLES}
        unseen, explaining = folder / "unseen.json", folder / "explaining-paths.json"
        return cls(
            {dataset: _json(file) for dataset, file in blends.items() if file.exists()},
            _json(unseen) if unseen.exists() else [],
            _json(trust_file(results)) if trust_file(results).exists() else (),
            _json(explaining) if explaining.exists() else None,
            *(_json(file) if (file := folder / f"{name}.json").exists() else () for name in OF_SCRIPTS),
        )


OF_SCRIPTS = ("classes", "sparsity", "printed")
NOTHING_MEASURED = Studies({}, [], [])


def section(found: Outcomes, studies: Studies) -> str:
    """What the model is, what it costs and what it brings."""
    parts = [
        "## TGCN from the question\n\n"
        "The paper's encoder sends messages from every entity's table, and they bring nothing on top of its decoder "
        "(next section). The same message, started at the head of a question instead, has no entity table at all: a "
        "score is made of the paths from the head to an answer (`docs/paths.md`). `without messages` are the same "
        "weights on a graph without edges; `blended` adds the log shares of the run of seed 0 and of an embedding "
        "run, with weights fitted on validation.",
        _transductive(found, studies),
    ]
    if studies.unseen:
        parts.append(_unseen(studies.unseen))
    if studies.explaining is not None:
        parts.append(_explaining(studies.explaining))
    return "\n\n".join(parts)


def headline_cells(found: Outcomes, studies: Studies, dataset: str) -> list[str]:
    """Of a dataset: MRR, Hits@1, Hits@10, what is left without messages, blended, minutes."""
    item, blend = found[f"{dataset}-paths"], studies.blends.get(dataset)
    return [
        with_deviation(item),
        short(item.mean("hits@1")),
        short(item.mean("hits@10")),
        short(_without(item)),
        short(None if blend is None else _blended(blend)["mean"]["mrr"]),
        number(item.counted_minutes, ".0f"),
    ]


def _transductive(found: Outcomes, studies: Studies) -> str:
    lines = []
    for dataset, title in TITLES.items():
        tgcn, asked = found[f"{dataset}-tgcn-tucker"], found[f"{dataset}-paths"]
        printed = [short(tgcn.row.printed(metric)) for metric in METRICS]
        lines.append([title, "TGCN-TuckER, as the paper prints it", *printed, *["–"] * 4])
        lines.append([title, "TGCN-TuckER, here", *_figures(tgcn)])
        lines.append([title, "TGCN from the question", *_figures(asked)])
        if dataset in studies.blends:
            lines.append([title, *_blend_line(studies.blends[dataset])])
    columns = ["", "", "MRR", "H@1", "H@3", "H@10", "parameters", "without messages", "minutes", "counted"]
    return as_table(columns, lines) + _doubts(studies)


def _figures(item: Outcome) -> list[str]:
    counts = item.results[0]["parameters"] if item.results else {}
    return [
        with_deviation(item),
        *(short(item.mean(metric)) for metric in METRICS[1:]),
        number(counts["efp"] + counts["nfp"] if counts else None, ","),
        short(_without(item)),
        number(item.minutes, ".1f"),
        number(item.counted_minutes, ".1f"),
    ]


def _without(item: Outcome) -> float | None:
    """Test MRR with every message switched off."""
    kept = [result["test_without_messages"]["mrr"] for result in item.results if "test_without_messages" in result]
    return mean(kept) if kept else None


def _blend_line(blend: JsonObject) -> list[str]:
    group = _blended(blend)
    members = " and ".join(blend["names"])
    return [
        f"blend of {members}",
        *(short(group["mean"][metric]) for metric in METRICS),
        number(group["parameters"], ","),
        "–",
        number(group["minutes"], ".1f"),
        "–",
    ]


def _blended(blend: JsonObject) -> JsonObject:
    """The blend among the groups that ``blend --test`` compares: the best member is the first, the blend the second."""
    found: JsonObject = blend["test"]["groups"][1]
    return found


def _doubts(studies: Studies) -> str:
    """What the paired bootstrap says of each blend."""
    said = []
    for dataset, blend in studies.blends.items():
        best, group = blend["test"]["groups"][0], _blended(blend)
        gap = blend["test"]["differences"][group["name"]]
        said.append(
            f"On {TITLES[dataset]} the blend has {signed(gap['mrr'])} over {best['name']}, its better member "
            f"(95 % interval of a paired bootstrap over triples {signed(gap['low'])} to {signed(gap['high'])})."
        )
    return "\n\n" + " ".join(said) if said else ""


def _unseen(rows: Sequence[JsonObject]) -> str:
    lines = []
    for graph in dict.fromkeys(row["graph"] for row in rows):
        of_graph = [row for row in rows if row["graph"] == graph]
        lines.append(
            [
                graph,
                str(len(of_graph)),
                _over_seeds(of_graph, "test", "mrr"),
                short(NBFNET.get(graph)),
                _over_seeds(of_graph, "test", "hits@10"),
                _over_seeds(of_graph, "valid+test", "mrr"),
                _over_seeds(of_graph, "valid+test", "hits@10"),
                _over_seeds(of_graph, "test", "hits@10_of_50"),
                number(max(row["minutes"] for row in of_graph), ".1f"),
            ]
        )
    columns = ["", "seeds", "MRR", "NBFNet", "H@10", "MRR valid+test", "H@10 valid+test", "H@10 of 50", "minutes"]
    return (
        "### Entities never seen\n\nGraIL's graphs: trained on one, asked about another that shares no entity with it; "
        "everything as `tuckerkg train NAME` chooses it (`scripts/measure_unseen.py`). All entities of the other graph "
        "are candidates. NBFNet's figures are as published. `H@10 of 50` is for tables that rank among 50 sampled "
        "candidates, and for nothing else.\n\n" + as_table(columns, lines)
    )


def _explaining(found: JsonObject) -> str:
    of_rank, named, random = (short(found[name]) for name in ("reciprocal_rank", "loss_named", "loss_random"))
    return (
        f"### Reasons that matter\n\nOf {found['links']} test facts that `{found['run']}` ranks among the first ten, "
        f"mean reciprocal rank {of_rank}, the {found['edges']} edges that an explanation names first were deleted: "
        f"{named} of it is lost, against {random} without as many random edges of the same entities "
        f"({found['times_random']:.0f} times as much). An explanation took {found['seconds_per_link']:.1f} s with both "
        "deletions (`scripts/measure_explaining.py`)."
    )


def _over_seeds(rows: Sequence[JsonObject], split: str, metric: str) -> str:
    values = [float(row[split][metric]) for row in rows]
    return short(mean(values)) + (f" ± {short(stdev(values))}" if len(values) > 1 else "")


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
