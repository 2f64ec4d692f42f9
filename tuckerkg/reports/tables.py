"""Tables for the terminal, TSV and JSON for programs. Labels are escaped, so that they cannot steer a terminal."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuckerkg.errors import TuckerkgError, printable, printable_json
from tuckerkg.inference.answers.files import as_frame, tsv
from tuckerkg.reports.comparison import shown

if TYPE_CHECKING:
    import polars as pl

    from tuckerkg.data.dataset import Dataset
    from tuckerkg.data.load import Listed
    from tuckerkg.evaluation.conformal import Coverage
    from tuckerkg.evaluation.metrics import Evaluation, Metrics
    from tuckerkg.explain.explainer import Explanation, Standing
    from tuckerkg.inference.answers.predictions import Prediction
    from tuckerkg.inference.trust import Trust
    from tuckerkg.paper.reproduce import Outcome
    from tuckerkg.probability.reliability import Reliability
    from tuckerkg.reports.blends import BlendReport
    from tuckerkg.reports.comparison import Part, RunComparison
    from tuckerkg.reports.inspection import Inspection
    from tuckerkg.storage.run_before import RunBefore
    from tuckerkg.tuning.trials import Trial


FORMATS = ("table", "tsv", "json")


def check_format(form: str) -> None:
    """Refuse an output format that does not exist."""
    if form not in FORMATS:
        raise TuckerkgError(f"--format is {form!r}, expected {', '.join(FORMATS)}")


def show_dataset(dataset: Dataset) -> None:
    """What was read, and its warnings. A closed output does not stop what follows."""
    with contextlib.suppress(OSError):
        print(
            f"{printable(dataset.name)}: {len(dataset.entities):,} entities, {len(dataset.relations):,} relations, "
            f"{len(dataset.train):,} / {len(dataset.valid):,} / {len(dataset.test):,} triples to train, validate, test"
        )
        for line in dataset.report.lines():
            print(f"  {printable(line)}", flush=True)


def show_evaluation(evaluation: Evaluation, relations: bool = False, names: Mapping[str, str] | None = None) -> None:
    """The readable table of an evaluation; ``names`` are those to show for relations' labels."""
    hits = list(evaluation.hits)
    graph = "" if evaluation.graph is None else f"{printable(evaluation.graph)}: "
    title = f"{graph}{evaluation.split} split, filtered, both directions, all entities"
    table = Table(title=Text(title), title_justify="left")
    for column in ("", "MRR", *(f"Hits@{k}" for k in hits), "mean rank", "adjusted", "queries"):
        table.add_column(column, justify="left" if not column else "right")
    for name, metrics in _parts(evaluation):
        table.add_row(name, *_cells(metrics, hits))
    if relations:
        table.add_section()
        for name, metrics in sorted(evaluation.by_relation.items(), key=lambda item: -item[1].queries):
            table.add_row(Text(printable((names or {}).get(name, name))), *_cells(metrics, hits))
    _console().print(table)
    unseen = "that training never saw" if evaluation.graph is None else "that none of the graph's facts name"
    print(
        f"ties: random, seed {evaluation.protocol['tie_seed']}; protocol {evaluation.protocol['fingerprint']}; "
        f"{evaluation.unseen_triples:,} triples with an entity {unseen}"
    )
    if evaluation.hits_10_of_50 is not None:
        print(
            f"for tables that rank among 50 sampled candidates, and for nothing else: Hits@10 of 50 is "
            f"{evaluation.hits_10_of_50:.4f}"
        )


def show_run_before(path: str, before: RunBefore, relations: bool = False) -> None:
    """That a refit was trained on everything, and what was measured on the run before."""
    print(
        f"{printable(path)}: is a refit of {printable(before.name)}, trained on all facts, so that nothing is held out "
        f"to rank. Figures and probabilities are those of {printable(before.name)}:"
    )
    if before.best_mrr is not None:
        epochs = "" if before.epochs is None else f" after {before.epochs:g} epochs"
        print(f"  best validation MRR {before.best_mrr:.4f}{epochs}")
    for split, kept in before.evaluations.items():
        table = Table(title=Text(f"{printable(before.name)}: {split} split"), title_justify="left")
        names = [name for name in kept if name in ("mrr", "mr") or name.startswith("hits@")]
        for column in ("", *names, "queries"):
            table.add_column(column, justify="right" if column else "left")
        parts = {"all": kept, **{f"{end}s": part for end, part in kept["directions"].items()}}
        for name, part in {**parts, **(kept["relations"] if relations else {})}.items():
            table.add_row(Text(printable(name)), *(f"{part[each]:.4f}" for each in names), f"{part['queries']:,}")
        _console().print(table)


def show_trust(calibrated: Reliability, plain_sigmoid: Reliability, answer_sets: Coverage, everywhere: Trust) -> None:
    """How far probabilities and answer sets can be trusted."""
    title = "probabilities of the ten best answers to questions that make sense, whether they have an answer or not"
    table = Table(title=title, title_justify="left")
    for column in ("", "calibration error", "Brier score", "log loss"):
        table.add_column(column, justify="right" if column else "left")
    for name, found in (("fitted on validation", calibrated), ("plain sigmoid", plain_sigmoid)):
        table.add_row(name, f"{found.ece:.4f}", f"{found.brier:.4f}", f"{found.log_loss:.4f}")
    _console().print(table)
    show_first(everywhere)
    bins = Table(title="probability and share that was true", title_justify="left")
    for column in ("says", "true", "facts"):
        bins.add_column(column, justify="right")
    for each in calibrated.bins:
        bins.add_row(f"{each.confidence:.1%}", f"{each.accuracy:.1%}", f"{each.count:,}")
    _console().print(bins)
    print(
        f"answer sets of {answer_sets.asked:.0%}: hold the tail in {answer_sets.tail:.1%} with "
        f"{answer_sets.mean_size_tail:,.0f} entities on average, the head in {answer_sets.head:.1%} with "
        f"{answer_sets.mean_size_head:,.0f}"
    )


def show_first(trust: Trust) -> None:
    """What is said of the best missing facts, and what is true."""
    table = Table(title="the best missing facts, where validation and test are hidden", title_justify="left")
    for column in ("first", "says", "true", "true by test alone"):
        table.add_column(column, justify="right")
    for each in trust.first:
        table.add_row(f"{each.count:,}", f"{each.said:.1%}", f"{each.true:.1%}", f"{each.true_by_test:.1%}")
    _console().print(table)
    errors = ", ".join(f"{name} {place.ece:.3f}" for name, place in trust.places.items())
    print(f"expected calibration error: {errors}")


def show_inspection(found: Inspection, relations: int, names: Mapping[str, str] | None = None) -> None:
    """The report before training.

    ``relations`` is how many relations to show, ``names`` are those to show for their labels.
    """
    short = names or {}
    counts = found.counts
    print(
        f"{printable(found.name)}: {counts['entities']:,} entities, {counts['relations']:,} relations, "
        f"{counts['train']:,} / {counts['valid']:,} / {counts['test']:,} triples to train, validate, test"
    )
    for line in found.files:
        print(f"  {printable(line)}")
    table = Table(title="relations", title_justify="left")
    for column in ("", "triples", "heads", "tails", "kind", "symmetric", "of heads x tails"):
        table.add_column(column, justify="right" if column else "left")
    for each in found.relations[:relations]:
        sizes = (f"{number:,}" for number in (each.triples, each.heads, each.tails))
        name = Text(printable(short.get(each.name, each.name)))
        table.add_row(name, *sizes, each.kind, f"{each.symmetric:.0%}", f"{each.cartesian:.1%}")
    _console().print(table)
    if len(found.relations) > relations:
        print(f"{len(found.relations) - relations:,} relations with fewer triples are not shown (--relations N)")
    for words, pairs in (("inverse", found.inverse), ("duplicate", found.duplicate)):
        for pair in pairs[:relations]:
            first, second = (short.get(name, name) for name in (pair.first, pair.second))
            print(printable(f"{words}: {pair.share:.0%} of {first} is {second}"))
    _show_difficulty(found)
    for warning in found.warnings:
        print(f"warning: {printable(warning)}")


def _show_difficulty(found: Inspection) -> None:
    """How much there is to learn from, what is given away, what guessing reaches, and how long training takes."""
    half, nearly_all, most = (found.degrees[share] for share in ("0.5", "0.95", "1.0"))
    print(
        f"half of the entities are in at most {half:,.0f} training triples, 95 % in {nearly_all:,.0f}, "
        f"the busiest in {most:,.0f}"
    )
    for name, share in found.leaks.items():
        print(f"test triples that training gives away, {name}: {share:.1%}")
    if any(found.leaks.values()):
        print("remedies, each of which says here what it would change: --drop-leaks, --split-by-pairs, --join-inverses")
    if found.baseline_mrr is not None:
        print(f"guessing each relation's most frequent answers scores a test MRR of {found.baseline_mrr:.3f}")
    if found.minutes is not None and found.seconds_per_epoch is not None:
        print(f"training here: {found.seconds_per_epoch:.1f} s an epoch, {found.minutes:,.1f} minutes in all")


def show_predictions(facts: Sequence[Prediction] | pl.DataFrame, form: str, *, guard: bool = True) -> None:
    """Predicted facts as a table, TSV or JSON; ``guard`` as in ``prediction_files.tsv``.

    Answers to several questions come as a frame with ``question`` and ``rank``.
    """
    frame = as_frame(facts)
    if form == "json":
        print(printable_json(frame.to_dicts()))
        return
    if form == "tsv":
        print(tsv(frame, guard=guard).decode(), end="")
        return
    table, asked = Table(), "question" in frame.columns
    for column in ("question", "rank") if asked else ("",):
        table.add_column(column, justify="right")
    for column in ("head", "relation", "tail"):
        table.add_column(column)
    judged = "verdict" in frame.columns
    for column in ("probability", "score", "known", *(("true", "wrong in") if judged else ())):
        table.add_column(column, justify="right")
    for number, row in enumerate(frame.iter_rows(named=True), 1):
        first = (str(row["question"]), str(row["rank"])) if asked else (str(number),)
        names = (Text(printable(row[name])) for name in ("head", "relation", "tail"))
        known = "known" if row["known"] else ""
        wrong = "" if row.get("error_rate") is None else f"{row['error_rate']:.0%}"
        verdict = (row["verdict"] or "", wrong) if judged else ()
        table.add_row(*first, *names, f"{row['probability']:.4f}", f"{row['score']:.3f}", known, *verdict)
    _console().print(table)


def show_decisions(frame: pl.DataFrame) -> None:
    """Decisions about facts as a table."""
    table = Table()
    for column in ("head", "relation", "tail", "probability", "decision", "by", "at", "note"):
        table.add_column(column, justify="right" if column == "probability" else "left")
    for row in frame.iter_rows(named=True):
        names = (Text(printable(row[name])) for name in ("head", "relation", "tail"))
        chance = "" if row["probability"] is None else f"{row['probability']:.4f}"
        about = (Text(printable(row[name])) for name in ("decision", "by", "at", "note"))
        table.add_row(*names, chance, *about)
    _console().print(table)


def show_explanation(found: Explanation) -> None:
    """Why a fact is predicted, as text."""
    known = ", which the graph holds" if found.known else ""
    print(printable(f"{found.head} {found.relation} {found.tail}{known}"))
    standing = found.standing
    print(
        f"probability {found.probability:.1%}, score {standing.score:.3f}, rank {standing.rank:,} of "
        f"{found.candidates:,} entities, known answers left out"
    )
    if not found.typed:
        print(printable(f"predict leaves it out: {found.tail} was never seen there; --untyped takes any entity"))
    if not found.uses_messages:
        print("\nThis model has no encoder: no edge of the graph enters the score, it is in the embeddings alone.")
    elif not found.edges:
        print("\nNo edge reaches the head or the tail: the score comes from their embeddings alone.")
    else:
        print("\nEdges that carried the score, and where it would stand without each:")
        for number, edge in enumerate(found.edges, 1):
            print(printable(f"{number:3}. {edge.sentence()}") + f"  [{_change(standing, edge.standing)}]")
        if found.without_all is not None and len(found.edges) > 1:
            print(f"     without all {len(found.edges)}: {_change(standing, found.without_all)}")
    print("\nPaths from one to the other:" if found.paths else "\nNo short path joins the two.")
    for path in found.paths:
        print(printable(f"  {path.sentence()}\n     ({path.evidence(found.relation)})"))


def _change(before: Standing, after: Standing) -> str:
    rank = f"rank {before.rank:,} becomes {after.rank:,}" if before.rank != after.rank else f"rank stays {after.rank:,}"
    return f"{rank}, {math.exp(after.log_share - before.log_share):.0%} of its share left"


def show_datasets(rows: Iterable[Listed]) -> None:
    """The list of datasets."""
    table = Table()
    for column in ("name", "entities", "relations", "train", "valid", "test", "where"):
        table.add_column(column, justify="left" if column in ("name", "where") else "right", overflow="fold")
    for row in rows:
        counts = (row.entities, row.relations, row.train, row.valid, row.test)
        table.add_row(row.name, *(f"{count:,}" for count in counts), Text(printable(row.where)))
    _console().print(table)


def show_counts(counts: Mapping[str, int], kind: str = "embedding") -> None:
    """Parameter counts of a kind of model with what each means."""
    meanings = {
        "efp": "embedding free parameters, N d_e + 2 R d_r",
        "nfp": "non-embedding free parameters",
        "enfp": "of these in the encoder",
    }
    if kind == "paths":
        meanings["efp"] = "of relations: a vector of the question and one per layer; entities have none"
        meanings["enfp"] = "of these in the layers"
    for name, meaning in meanings.items():
        print(f"{name:5} {counts[name]:>12,}  {meaning}")


def _parts(evaluation: Evaluation) -> list[tuple[str, Metrics]]:
    return [
        ("all", evaluation.overall),
        ("tails", evaluation.by_direction["tail"]),
        ("heads", evaluation.by_direction["head"]),
        ("seen entities only", evaluation.seen_only),
        *((f"ties: {rule}", metrics) for rule, metrics in evaluation.ties.items()),
    ]


def _cells(metrics: Metrics, hits: Sequence[int]) -> list[str]:
    values = [f"{metrics.mrr:.4f}", *(f"{metrics.hits[k]:.4f}" for k in hits)]
    return [*values, f"{metrics.mr:,.1f}", f"{metrics.amri:.4f}", f"{metrics.queries:,}"]


def _console() -> Console:
    """Tables as wide as they need where nobody watches: a log must not cut names."""
    return Console() if sys.stdout.isatty() else Console(width=160)


def show_outcomes(outcomes: Sequence[Outcome]) -> None:
    """The paper's figures beside ours."""
    table = Table(title="test MRR, filtered, random ties", title_justify="left")
    columns = ("row", "paper", "ours", "seeds", "difference", "messages", "minutes", "peak MB", "verdict")
    for column in columns:
        table.add_column(column, justify="left" if column in ("row", "verdict") else "right")
    for item in outcomes:
        deviation = "" if item.deviation is None else f" ± {item.deviation:.3f}"
        table.add_row(
            item.row.name,
            _three(item.row.printed("mrr")),
            _three(item.mean()) + deviation,
            str(len(item.results)),
            "" if item.difference is None else f"{item.difference:+.3f}",
            "" if item.by_messages is None else f"{item.by_messages:+.3f}",
            "" if item.minutes is None else f"{item.minutes:.1f}",
            "" if item.peak_memory_mb is None else f"{item.peak_memory_mb:,}",
            item.verdict,
        )
    _console().print(table)


def show_comparison(found: RunComparison, relations: int) -> None:
    """Runs side by side; ``relations`` is how many relations to show."""
    table = Table(title=f"{found.evaluations[0].split} split, filtered, random ties", title_justify="left")
    hits = [f"Hits@{k}" for k in found.evaluations[0].hits]
    for column in ("run", "MRR", *hits, "mean rank", "difference", "95 %", "p"):
        table.add_column(column, justify="left" if column == "run" else "right")
    table.add_column("parameters", justify="right")
    table.add_column("minutes", justify="right")
    for place, group in enumerate(found.groups):
        held = ["", "", ""]
        if place:
            gap = found.differences[place - 1]
            held = [f"{gap.mrr:+.4f}", f"{gap.low:+.4f} to {gap.high:+.4f}", f"{gap.p:.3f}"]
        name = group.name if len(group.runs) == 1 else f"{group.name} ({len(group.runs)} seeds)"
        values = [shown(group, metric) for metric in found.metrics]
        table.add_row(Text(printable(name)), *values, *held, f"{group.parameters:,}", f"{group.minutes:.1f}")
    _console().print(table)
    _show_parts("MRR by the number of training facts about the answer", found.names, found.degrees)
    most = found.relations[:relations]
    if most:
        rest = len(found.relations) - len(most)
        title = f"MRR by relation{f', {rest} with fewer questions not shown' if rest else ''}"
        _show_parts(title, found.names, most)
    print(f"protocol {found.evaluations[0].protocol['fingerprint']}; paired bootstrap over triples")


def show_blend(found: BlendReport) -> None:
    """A blend beside its members on validation, and their shares of the weights."""
    table = Table(title="validation split, filtered by train and valid", title_justify="left")
    for column in ("run", "MRR", "weight, tails asked", "weight, heads asked"):
        table.add_column(column, justify="left" if column == "run" else "right")
    for name, mrr, tails, heads in zip(found.names, found.alone, found.tails, found.heads, strict=True):
        table.add_row(Text(printable(name)), f"{mrr:.4f}", f"{tails:.2f}", f"{heads:.2f}")
    table.add_row("blend", f"{found.blended:.4f}", "", "")
    _console().print(table)
    print(printable(found.verdict))


def _show_parts(title: str, names: Sequence[str], parts: Sequence[Part]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    table.add_column("queries", justify="right")
    for name in names:
        table.add_column(Text(printable(name)), justify="right")
    for part in parts:
        table.add_row(Text(printable(part.name)), f"{part.queries:,}", *(f"{value:.4f}" for value in part.mrr))
    _console().print(table)


def show_trial(trial: Trial) -> None:
    """One line as a trial ends."""
    varied = ", ".join(f"{key}={value}" for key, value in trial.settings.items())
    print(f"trial {trial.number}: {trial.state}, validation MRR {trial.mrr:.4f}, {trial.minutes:.1f} min: {varied}")


def show_trials(trials: Sequence[Trial], folder: Path) -> None:
    """The best trials of a study, and how to train the best of all."""
    table = Table(title="best trials, validation MRR", title_justify="left")
    keys = list(trials[0].settings) if trials else []
    for column in ("trial", "state", "MRR", "minutes", *keys):
        table.add_column(column, justify="right")
    for trial in trials[:10]:
        varied = [f"{trial.settings.get(key, '')}" for key in keys]
        table.add_row(str(trial.number), trial.state, f"{trial.mrr:.4f}", f"{trial.minutes:.1f}", *varied)
    _console().print(table)
    if trials:
        changes = " ".join(f"--set {key}={value}" for key, value in trials[0].settings.items())
        print(f"all trials: {folder / 'study.json'}\nthe best, as options of train: {changes}")


def _three(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
