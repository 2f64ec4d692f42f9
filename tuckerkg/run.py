"""A trained run, ready to be measured and asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuckerkg.calibrate import Calibration, best_candidates, fit_calibration
from tuckerkg.checkpoint import RunFolder
from tuckerkg.config import Settings, build_model, parse_settings
from tuckerkg.errors import RunFolderError, TuckerkgError, UnknownNameError, did_you_mean
from tuckerkg.evaluate import Evaluation, describe_protocol, known_answers, rank, report
from tuckerkg.explain import Explainer, Explanation, in_words
from tuckerkg.manifest import write_atomic
from tuckerkg.model import Encoded, Model
from tuckerkg.names import Names
from tuckerkg.predict import Prediction, Predictor
from tuckerkg.reliability import Conformal, Coverage, Reliability, fit_conformal, measure_coverage, reliability
from tuckerkg.training import choose_device, restore_weights
from tuckerkg.validation import seen_entities, whole_message_graph
from tuckerkg.versions import Version, read_version, version_numbers
from tuckerkg.weights import check_entity_rows

SPLITS = ("train", "valid", "test")
_AT_VERSION = re.compile(r"(.+)@([0-9]{1,9})")


class Run:
    """A run folder with its best weights loaded. Get one from ``tuckerkg.train`` or ``tuckerkg.load``.

    ``version`` None is the newest: facts that were added after training are part of it.
    """

    def __init__(
        self,
        folder: RunFolder,
        note: Callable[[str], None] = lambda text: None,
        *,
        calibrated: bool = True,
        version: int | None = None,
    ) -> None:
        self.folder, self.calibrated = folder, calibrated
        self.settings: Settings = parse_settings(folder.settings, str(folder.path))
        checkpoint = folder.best(note)
        self.step, self.state = checkpoint.step, checkpoint.state
        labels, titles, weights = folder.entities(), folder.entity_titles(), checkpoint.weights
        check_entity_rows(weights, "entities", len(labels))
        self.num_trained = len(labels)
        self.version = version_numbers(folder.path)[-1] if version is None else version
        self.added: Version | None = None
        if self.version != 1:
            self.added = read_version(folder.path, self.version)
            labels, titles = [*labels, *self.added.labels], {**titles, **self.added.titles}
            weights = _with_rows(folder.path, weights, self.added, self.step)
        self.entities = Names("entity", labels, titles)
        self.relations = Names("relation", folder.relations(), folder.relation_titles())
        self.model: Model = build_model(self.settings, len(self.entities), len(self.relations))
        restore_weights(self.model, replace(checkpoint, weights=weights))
        self.model.to(choose_device(self.settings.train.device)).eval()

    def split(self, name: str) -> np.ndarray:
        """The triples of a split, ``[n, 3]``; what was added after training counts as training's."""
        triples = self.folder.split(name)
        if name == "train" and self.added is not None:
            return np.concatenate([triples, self.added.triples])
        return triples

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The looks at validation during training, oldest first."""
        return self.folder.metrics()

    @cached_property
    def encoded(self) -> Encoded:
        """All entities encoded once over the training graph."""
        return self.model.encoded(whole_message_graph(self.model, self.split("train")))

    @property
    def uses_messages(self) -> bool:
        """Whether the encoder reads the graph."""
        return bool(self.model.encoder.uses_graph)

    @cached_property
    def calibration(self) -> Calibration:
        """Turns scores into probabilities: fitted on validation, or the paper's plain sigmoid if not ``calibrated``."""
        if not self.calibrated:
            return Calibration()
        return fit_calibration(self.encoded, self.split("train"), self.split("valid"))

    def reliability(self, split: str = "test") -> Reliability:
        """How far probabilities are true for the best candidates of a held-out split's questions.

        Known facts are left out: training's, and for the test split validation's too.
        """
        best = best_candidates(self.encoded, self._known_before(split), self.split(split))
        return reliability(best, self.calibration)

    def conformal(self, coverage: float = 0.9) -> Conformal:
        """Answer sets that hold the answer with probability ``coverage``, fitted on validation."""
        if not 0.0 < coverage < 1.0:
            raise TuckerkgError(f"coverage is {coverage}, expected a share between 0 and 1, such as 0.9")
        return fit_conformal(self.encoded, self.split("train"), self.split("valid"), coverage)

    def coverage(self, split: str = "test", coverage: float = 0.9) -> Coverage:
        """How often answer sets hold the answer on a held-out split, by direction, and how large they are."""
        known = [self.split(name) for name in SPLITS]
        return measure_coverage(self.encoded, self.conformal(coverage), known, self.split(split))

    def _known_before(self, split: str) -> list[np.ndarray]:
        if split not in SPLITS[1:]:
            raise UnknownNameError(f"{split!r} is not held out, expected valid or test")
        return [self.split(name) for name in SPLITS[: SPLITS.index(split)]]

    @cached_property
    def predictor(self) -> Predictor:
        """Answers questions; known facts are those of all splits."""
        splits = [self.split(name) for name in SPLITS]
        return Predictor(self.encoded, self.entities, self.relations, splits, self.calibration)

    def evaluate(
        self, split: str = "test", tick: Callable[[int, int], None] | None = None, *, messages: bool = True
    ) -> Evaluation:
        """Filtered ranks of a split over all entities, both directions; also kept as ``evaluation-<split>.json``.

        ``messages`` False encodes without any edge, to see what the messages do; that is not kept.
        """
        if split not in SPLITS:
            raise UnknownNameError(
                f"there is no split {split!r}, only {', '.join(SPLITS)}.{did_you_mean(split, SPLITS)}"
            )
        # Validation is filtered as in training, without the test split; the test split by all three.
        filtered_by = SPLITS if split == "test" else SPLITS[:2]
        splits = {name: self.split(name) for name in filtered_by}
        if len(splits[split]) == 0:
            raise RunFolderError(f"{self.path}: the {split} split of this run is empty, there is nothing to rank")
        model, tie_seed = self.model, self.settings.evaluate.tie_seed
        known = known_answers(list(splits.values()), model.num_relations).to(model.entities.device)
        encoded = self.encoded if messages else model.encoded(whole_message_graph(model, splits["train"][:0]))
        ranks = rank(encoded.scores, splits[split], known, model.num_entities, model.num_relations, tick=tick)
        evaluation = report(
            ranks,
            split=split,
            seen=seen_entities(splits["train"], model.num_entities),
            relation_names=list(self.relations.labels),
            protocol=describe_protocol(
                splits, split=split, filtered_by=filtered_by, tie_seed=tie_seed, num_entities=model.num_entities
            ),
            hits=self.settings.evaluate.hits,
            tie_seed=tie_seed,
        )
        if not messages:
            return evaluation
        text = json.dumps({"step": self.step, **evaluation.as_dict()}, indent=2, ensure_ascii=False)
        of_version = "" if self.version == 1 else f"-version{self.version}"
        write_atomic(self.path / f"evaluation-{split}{of_version}.json", text.encode())
        return evaluation

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        *,
        include_known: bool = False,
        typed: bool = True,
    ) -> list[Prediction]:
        """The ``k`` best completions of a question; see ``Predictor.predict``."""
        return self.predictor.predict(head, relation, tail, k, include_known=include_known, typed=typed)

    def top_missing(
        self,
        count: int = 10,
        *,
        typed: bool = True,
        missing_from: Sequence[str] = SPLITS,
        tick: Callable[[int, int], None] | None = None,
    ) -> list[Prediction]:
        """The most believed facts that the graph does not hold; see ``Predictor.top_missing``.

        With ``missing_from=("train",)`` held-out facts count as missing: their ``known`` then says that they are true.
        """
        if set(missing_from) == set(SPLITS):
            return self.predictor.top_missing(count, typed=typed, tick=tick)
        splits = [self.split(name) for name in missing_from]
        asked = Predictor(self.encoded, self.entities, self.relations, splits, self.calibration)
        facts = asked.top_missing(count, typed=typed, tick=tick)
        return [replace(fact, known=self.predictor.holds(fact)) for fact in facts]

    def score(self, triples: Sequence[tuple[str, str, str]]) -> list[Prediction]:
        """Score and probability of whole triples of names."""
        heads, relations, tails = zip(*triples, strict=True) if triples else ((), (), ())
        return self.predictor.score(heads, relations, tails)

    @cached_property
    def explainer(self) -> Explainer:
        """Finds what carried a score."""
        return Explainer(self.encoded, self.split("train"), self.predictor.known)

    def explain(
        self,
        head: str,
        relation: str,
        tail: str,
        count: int = 5,
        tick: Callable[[int, int], None] | None = None,
    ) -> Explanation:
        """Why the model believes a fact: the ``count`` edges that carried most, what is left without them, paths."""
        (weighed,) = self.predictor.score([head], [relation], [tail])
        fact = self.entities.id_of(head), self.relations.id_of(relation), self.entities.id_of(tail)
        return in_words(
            self.explainer, self.entities, self.relations, fact, weighed.probability, weighed.known, count, tick
        )


def load(
    path: str | Path,
    *,
    calibrated: bool = True,
    version: int | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Run:
    """Opens a run folder that ``train`` wrote, with its best weights.

    Probabilities are fitted on validation; with ``calibrated`` False they are the sigmoid of the score. ``version`` is
    one of those that ``tuckerkg add`` made, 1 the run as it was trained, None the newest; ``RUN@1`` says the same.
    ``note`` hears of a damaged checkpoint that another one stands in for.
    """
    match = _AT_VERSION.fullmatch(str(path))
    if match and version is None and not Path(path).exists():
        path, version = match[1], int(match[2])
    return Run(RunFolder.open(Path(path)), note, calibrated=calibrated, version=version)


def _with_rows(run: Path, weights: Mapping[str, Tensor], added: Version, step: int) -> dict[str, Tensor]:
    """The trained tables with the added entities' rows below."""
    if added.step != step:
        raise RunFolderError(
            f"{run}: version {added.number} was made for the weights of step {added.step}, and the best are now those "
            f"of step {step}. Add the facts again, or ask for the run as it was trained: {run}@1"
        )
    joined = dict(weights)
    for name in ("entities", "bias"):
        if name not in weights:
            continue
        rows = added.rows.get(name)
        if rows is None or (len(rows), rows.shape[1:], rows.dtype) != (
            len(added.labels),
            weights[name].shape[1:],
            weights[name].dtype,
        ):
            raise RunFolderError(
                f"{run}: version {added.number} does not fit the table of {name}. Add the facts again."
            )
        joined[name] = torch.cat([weights[name], rows])
    return joined
