"""How well a run ranks what was held out, and what guessing would score."""

from __future__ import annotations

from pathlib import Path

from tuckerkg.data.triple_sets import SPLITS
from tuckerkg.errors import UnknownNameError, did_you_mean
from tuckerkg.evaluation.frequency_baseline import FrequencyScorer, guessing_mrr
from tuckerkg.evaluation.metrics import Evaluation, evaluation_of
from tuckerkg.evaluation.protocol import describe_protocol, seen_entities
from tuckerkg.graph.known_tails import KnownTails
from tuckerkg.inference.opened_run import OpenedRun
from tuckerkg.nn.contracts import ReadsEdges
from tuckerkg.types import ProgressFunction

VALID_AND_TEST = "valid+test"


def evaluate(
    run: OpenedRun, split: str, progress: ProgressFunction | None = None, *, messages: bool = True
) -> Evaluation:
    """Filtered ranks of a split; see ``Run.evaluate``."""
    _check_split(run, split)
    filtered_by = SPLITS if run.graph is not None or split == "test" else SPLITS[:2]
    splits = {name: run.split(name) for name in filtered_by}
    asked = run.held_out(split)
    scorer, tie_seed = run.scorer, run.settings.evaluate.tie_seed
    if not messages and isinstance(scorer, ReadsEdges):
        scorer = scorer.without(range(len(splits["train"])))
    known = KnownTails.from_splits(list(splits.values()), scorer.num_relations)
    return evaluation_of(
        run.rank(scorer, asked, known, progress),
        split=split,
        seen=seen_entities(splits["train"], scorer.num_entities),
        relation_names=list(run.relations.labels),
        protocol=describe_protocol(
            splits, split=split, filtered_by=filtered_by, tie_seed=tie_seed, num_entities=scorer.num_entities
        ),
        hits=run.settings.evaluate.hits,
        tie_seed=tie_seed,
        graph=None if run.graph is None else run.graph.name,
    )


def guess(run: OpenedRun, split: str) -> float:
    """The MRR of each relation's most frequent answers."""
    _check_split(run, split)
    known = SPLITS if run.graph is not None or split == "test" else SPLITS[:2]
    guesses = FrequencyScorer(run.split("train"), len(run.entities), len(run.relations))
    return guessing_mrr(
        guesses,
        run.held_out(split),
        KnownTails.from_splits([run.split(name) for name in known], len(run.relations)),
    )


def _check_split(run: OpenedRun, split: str) -> None:
    if run.graph is None and split == VALID_AND_TEST:
        raise UnknownNameError(
            f"{run.path}: the weights were chosen on validation, so it is no test together with the test split; "
            "valid+test is for a graph that the run was not trained on"
        )
    splits = SPLITS if run.graph is None else (*SPLITS, VALID_AND_TEST)
    if split not in splits:
        raise UnknownNameError(f"there is no split {split!r}, only {', '.join(splits)}.{did_you_mean(split, splits)}")


def evaluation_file(run: OpenedRun, split: str) -> Path:
    """Where ``tuckerkg evaluate`` keeps what it found on a split."""
    of_graph = "" if run.graph is None else f"{run.graph.file_name}-"
    of_version = "" if run.version == 1 else f"-version{run.version}"
    return run.path / f"evaluation-{of_graph}{split}{of_version}.json"
