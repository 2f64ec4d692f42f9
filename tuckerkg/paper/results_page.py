"""RESULTS.md and the headline table of the README, from result files alone: the paper's figures beside ours."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuckerkg.errors import TuckerkgError
from tuckerkg.paper.claims import Outcomes, claims
from tuckerkg.paper.classes_page import classes_section
from tuckerkg.paper.markdown import as_table, number, short, signed, with_deviation
from tuckerkg.paper.printed_page import printed_section
from tuckerkg.paper.question_page import NOTHING_MEASURED, TITLES, Studies, headline_cells, section
from tuckerkg.paper.reproduce import NOTHING, Outcome, budget, outcome
from tuckerkg.paper.rows import METRICS, paper_rows
from tuckerkg.paper.sparsity_page import sparsity_section
from tuckerkg.paper.trust_page import trust_section
from tuckerkg.types import JsonObject

HITS = METRICS[1:]


def all_outcomes(results: Path) -> dict[str, Outcome]:
    """Every row of the paper with what is there of it, by name."""
    return {row.name: outcome(row, results) for row in paper_rows()}


def page(
    found: Outcomes,
    figures: Sequence[str] = (),
    bench: Sequence[Mapping[str, Any]] = (),
    studies: Studies = NOTHING_MEASURED,
) -> str:
    """The whole of RESULTS.md. ``figures`` are the pictures that were drawn, ``bench`` the lines of bench.json."""
    parts = [
        "# Results\n\n"
        "Written by `tuckerkg results` from the files in `results/`; nothing by hand. Test split, filtered by all "
        "three splits, both directions, all entities, random ties; weights chosen on validation, which is filtered "
        "without the test split. Where a row has several seeds, the mean and the deviation between them. Minutes are "
        "the longest run's as measured; `counted` is how they count against a limit on two cores: half of its CPU "
        "time where other work ran beside it. The minutes of a warm start count too. `messages` is what they bring: "
        "test MRR minus that of the same weights with every message switched off; the verdict `decoder alone` is "
        "given to weights that no message has touched.",
        section(found, studies),
        *([trust_section(studies.trust)] if studies.trust else []),
        *([classes_section(studies.classes)] if studies.classes else []),
        *([sparsity_section(studies.sparsity)] if studies.sparsity else []),
        *([printed_section(studies.printed, found)] if studies.printed else []),
        "## The paper's main table\n\n" + what_messages_bring(found) + "\n\n" + _main(found),
        "## TGCN in detail, and the CP core\n\n" + _details(found, "main", "cp", only="TGCN"),
        "## Every other system in detail\n\nCompGCN is an encoder: on FB15k-237 it is in front of TuckER here; in "
        "front of ConvE, as published, under the encoders in front of other decoders.\n\n"
        + _details(found, "main", without="TGCN"),
        "## On the way\n\nRuns that rows above start from.\n\n" + _details(found, "stages"),
        "## Convolutions from random tables\n\nConvE, SACN and CompGCN above start from embeddings that another "
        "run has trained (column `warm start`). From random ones they learn slowly; what they reach so, within the "
        "same hour:\n\n" + _details(found, "random"),
        "## Encoders in front of other decoders\n\n" + _details(found, "front"),
        "## Decoders alone\n\nThe same width and loss without an encoder. A TGCN row starts from its decoder's run, "
        "so it has had more epochs; the minutes of both are given.\n\n" + _details(found, "decoder"),
        "## Width of the entities (d_r 125)\n\n" + _budgets(found, "width") + _details(found, "width"),
        "## R-GCN with three decompositions\n\n" + _details(found, "rgcn"),
        "## Number of bases on WN18RR\n\n" + _budgets(found, "bases") + _curve(found, "bases", "n_b"),
        "## Size of the subgraphs\n\n" + _budgets(found, "subgraph") + _curve(found, "subgraph", "g_s"),
        "## 1-N against 1-b\n\n" + _details(found, "losses") + "\n\n" + _cost_of_losses(bench),
        "## Best at 100 dimensions, any option\n\n" + _details(found, "best"),
        "## The paper's claims\n\n" + _claims(found),
    ]
    pictures = "\n\n".join(f"![{Path(name).stem}]({name})" for name in figures)
    return "\n\n".join([*parts, "## Figures\n\n" + pictures] if pictures else parts) + "\n"


def bench_lines(results: Path) -> list[JsonObject]:
    """What ``make bench`` stored, if it did."""
    path = results / "bench" / "bench.json"
    found: list[JsonObject] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return found


def headline(found: Outcomes, studies: Studies = NOTHING_MEASURED) -> str:
    """The README's table and paragraph: messages from the question beside the paper's headline rows."""
    lines = []
    for dataset, title in TITLES.items():
        item = found[f"{dataset}-tgcn-tucker"]
        alone = found[item.row.run_as.start].beside(item).mean()
        cells = [short(item.row.printed("mrr")), with_deviation(item), short(alone)]
        lines.append([title, *cells, *headline_cells(found, studies, dataset)])
    columns = ["test MRR", "TGCN-TuckER, paper", "here", "TuckER alone", "**from the question**", "Hits@1", "Hits@10"]
    columns += ["without messages", "blended", "minutes"]
    return as_table(columns, lines) + "\n\n" + _wrapped(what_messages_bring(found))


def _wrapped(text: str, width: int = 118) -> str:
    return "\n".join(textwrap.wrap(text, width))


def _main(found: Outcomes) -> str:
    """Both datasets side by side, paper and ours in each cell."""
    systems = list(dict.fromkeys(item.row.system for item in found.values() if item.row.table == "main"))
    lines = []
    for system in systems:
        cells = [system, str(_row(found, system, "fb15k-237").row.dim)]
        for dataset in TITLES:
            item = _row(found, system, dataset)
            cells += [f"{short(item.row.printed(metric))} / {short(item.mean(metric))}" for metric in METRICS]
        lines.append(cells)
    columns = ["paper / ours", "DoE there"]
    columns += [f"{title} {metric}" for title in TITLES.values() for metric in ("MRR", "H@1", "H@3", "H@10")]
    return as_table(columns, lines)


def _row(found: Outcomes, system: str, dataset: str) -> Outcome:
    return next(
        item
        for item in found.values()
        if (item.row.table, item.row.system, item.row.dataset) == ("main", system, dataset)
    )


def _details(found: Outcomes, *tables: str, only: str = "", without: str = "\n") -> str:
    """One line per row, with everything that is measured; ``only`` and ``without`` are parts of a system's name."""
    rows = [item for item in found.values() if item.row.table in tables]
    items = [item for item in rows if only in item.row.system and without not in item.row.system]
    columns = ["", "system", "encoder, decoder", "d_e", "paper MRR", "ours", "H@1", "H@3", "H@10", "#NFP", "#EFP"]
    columns += ["warm start", "messages"]
    return as_table([*columns, "minutes", "counted", "peak MB", "verdict"], [_detail(item) for item in items])


def _detail(item: Outcome) -> list[str]:
    counts = item.results[0]["parameters"] if item.results else {}
    width = item.results[0]["options"]["model"]["dim"] if item.results else item.row.dim
    return [
        TITLES[item.row.dataset],
        item.row.system,
        ", ".join(item.results[0][part] for part in ("encoder", "decoder")) if item.results else "–",
        str(width),
        short(item.row.printed("mrr")),
        with_deviation(item),
        *(short(item.mean(metric)) for metric in HITS),
        *(number(counts.get(key), ",") for key in ("nfp", "efp")),
        _origin(item),
        _messages(item),
        number(item.minutes, ".1f"),
        number(item.counted_minutes, ".1f"),
        number(item.peak_memory_mb, ","),
        item.verdict,
    ]


def _origin(item: Outcome) -> str:
    """The run whose weights were the start, without dataset and seed."""
    names = {result.get("started_from", "") for result in item.results} - {""}
    return (
        ", ".join(sorted({name.removeprefix(f"{item.row.dataset}-").rpartition("-seed")[0] for name in names})) or "–"
    )


def _messages(item: Outcome) -> str:
    return "–" if item.by_messages is None else signed(item.by_messages)


def what_messages_bring(found: Outcomes) -> str:
    """One honest paragraph: what TGCN's messages are worth in its rows, from the result files."""
    rows = [
        item
        for item in found.values()
        if item.row.table in ("main", "cp", "front")
        and item.row.system.startswith("TGCN")
        and item.by_messages is not None
    ]
    if not rows:
        return "No TGCN row has been run yet."
    small = sum(abs(item.by_messages or 0.0) < NOTHING for item in rows)
    seeds = sum(len(item.results) for item in rows)
    kept = sum(item.kept_decoder for item in rows)
    others = [
        f"{signed(item.by_messages)} on {TITLES[item.row.dataset]}"
        for item in found.values()
        if item.row.table == "main" and item.row.system == "R-GCN" and item.by_messages is not None
    ]
    text = (
        f"What the encoder brings: switching every message off changes the test MRR by less than {short(NOTHING)} in "
        f"{small} of {len(rows)} TGCN rows, and in {kept} of their {seeds} runs validation kept weights from before "
        "the first message. These rows are as good as they are by their decoders; on top of a decoder that was trained "
        "well, TGCN's messages add nothing."
    )
    return text + (
        f" An encoder that is trained with its decoder from the start does use them: R-GCN {', '.join(others)}."
        if others
        else ""
    )


def _budgets(found: Outcomes, table: str) -> str:
    """What each point of a curve was given, in a sentence; empty before the first run."""
    given: dict[str, set[str]] = {}
    for item in found.values():
        if item.row.table == table:
            given.setdefault(TITLES[item.row.dataset], set()).update(map(budget, item.results))
    said = [f"{' or '.join(sorted(budgets))} a point on {title}" for title, budgets in given.items() if budgets]
    if not said:
        return ""
    return (
        f"Short runs: {', '.join(said)}, where the paper trained for 60,000 iterations. They show the shape of a "
        "curve, not its height.\n\n"
    )


def _curve(found: Outcomes, table: str, symbol: str) -> str:
    items = [item for item in found.values() if item.row.table == table]
    columns = ["", symbol, "paper MRR", "ours", "difference", "messages", "#ENFP", "minutes"]
    return as_table(columns, [_point(item) for item in items])


def _point(item: Outcome) -> list[str]:
    enfp = item.results[0]["parameters"]["enfp"] if item.results else None
    return [
        TITLES[item.row.dataset],
        number(item.row.x, ","),
        short(item.row.printed("mrr")),
        with_deviation(item),
        "–" if item.difference is None else signed(item.difference),
        _messages(item),
        number(enfp, ","),
        number(item.minutes, ".1f"),
    ]


def _cost_of_losses(bench: Sequence[Mapping[str, Any]]) -> str:
    """Seconds and memory of one iteration against the number of entities."""
    lines = [
        [
            f"{other['entities']:,}",
            *(f"{cost['seconds']:.2f}" for cost in (line, other)),
            *(f"{cost['peak_memory_mb']:,.0f}" for cost in (line, other)),
        ]
        for line in bench
        if line["stage"] == "1-n"
        for other in line["against"]
    ]
    columns = ["entities", "1-b seconds", "1-N seconds", "1-b peak MB", "1-N peak MB"]
    return "One iteration against the number of entities (`make bench`):\n\n" + as_table(columns, lines)


def _claims(found: Outcomes) -> str:
    lines = []
    for claim in claims():
        ours = claim.ours(found)
        verdict = "not run yet" if ours is None else "holds" if ours[1] else "does not hold"
        lines.append([claim.sentence, claim.printed, "–" if ours is None else ours[0], verdict])
    return as_table(["the paper says", "its figures", "ours", ""], lines)


def replace_block(path: Path, name: str, block: str) -> str:
    """The text of ``path`` with what stands between ``<!-- name -->`` and ``<!-- end name -->`` replaced."""
    start, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    try:
        before, _, rest = path.read_text(encoding="utf-8").partition(start)
    except (OSError, UnicodeDecodeError) as error:
        raise TuckerkgError(f"{path}: cannot be read: {error}") from error
    _, found, after = rest.partition(end)
    if not found:
        raise TuckerkgError(f"{path}: there is no {start} ... {end} to fill; put the two lines where it shall stand")
    return f"{before}{start}\n{block}\n{end}{after}"
