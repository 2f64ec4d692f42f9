"""The next training knows what people decided: accepted facts are trained on, rejected ones are not asked again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuckerkg.data.dataset import Dataset
from tuckerkg.data.triple_sets import SPLITS, Triples, is_among, triple_keys
from tuckerkg.errors import TuckerkgError, counted, printable
from tuckerkg.review.decisions import Decision, Decisions
from tuckerkg.storage.run_folder import RunFolder


@dataclass(frozen=True)
class Carried:
    """A graph with the facts that were accepted, and all decisions, for the run that is trained on it."""

    dataset: Dataset
    decisions: list[Decision]

    def keep(self, run: Path) -> None:
        """Put the decisions beside a run, with who and when, where none stands yet."""
        kept = Decisions(run)
        if self.decisions and not kept.history():
            kept.add(self.decisions)


def with_decisions(dataset: Dataset, run: Path) -> Carried:
    """Add the facts that were accepted about ``run`` to the training facts of ``dataset``.

    Facts that the graph has already stay in their split; those with a name that it does not have are left out, and
    counted. Rejected facts are wrong answers to every training question, as all facts are that the graph does not say.

    Raises:
        TuckerkgError: nothing was decided about the run, or the graph says a fact that was rejected.
    """
    found = Decisions(RunFolder.open(run).path).current()
    if not found:
        raise TuckerkgError(f"{run}: nothing was decided about its facts; see tuckerkg decide")
    known = np.sort(np.concatenate([_keys(dataset, dataset.split(name)) for name in SPLITS]))
    rejected = [each for each in found if each.choice == "reject" and _has_names(dataset, each)]
    wrong = is_among(_keys(dataset, _ids(dataset, rejected)), known)
    if wrong.any():
        first = " ".join(map(printable, rejected[int(np.argmax(wrong))].fact))
        raise TuckerkgError(
            f"{counted(int(wrong.sum()), 'fact', 'facts')} of {dataset.name} said to be wrong by a decision, such as "
            f"{first}: take them out of the file, or decide again with tuckerkg decide {run}"
        )
    accepted = [each for each in found if each.choice == "accept"]
    triples = _ids(dataset, [each for each in accepted if _has_names(dataset, each)])
    new = triples[~is_among(_keys(dataset, triples), known)]
    note = (
        f"{counted(len(new), 'accepted fact', 'accepted facts')} joined training; {len(triples) - len(new):,} stood in "
        f"the graph already, {len(accepted) - len(triples):,} left out, with names that it does not have"
    )
    parts = {name: dataset.split(name) for name in SPLITS}
    parts["train"] = np.concatenate([parts["train"], new])
    return Carried(dataset.with_splits(parts, note), found)


def _has_names(dataset: Dataset, decision: Decision) -> bool:
    ends = decision.head in dataset.entities and decision.tail in dataset.entities
    return ends and decision.relation in dataset.relations


def _ids(dataset: Dataset, decisions: list[Decision]) -> Triples:
    entities, relations = dataset.entities, dataset.relations
    rows = [
        (entities.id_of(each.head), relations.id_of(each.relation), entities.id_of(each.tail)) for each in decisions
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _keys(dataset: Dataset, triples: Triples) -> Triples:
    return triple_keys(triples, len(dataset.entities), len(dataset.relations))
