"""What a blend is made of: its members' validation MRR and weights, beside its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch

from tuckerkg.inference.run import Run
from tuckerkg.nn.blend_scorer import BlendScorer
from tuckerkg.types import JsonObject


@dataclass(frozen=True)
class BlendReport:
    """Of a blend: figures on validation, and shares of the weights, which add up to 1 over the members.

    Attributes:
        alone: validation MRR of each member.
        tails, heads: each member's share of the weights where tails or heads are asked: the mean over relations, each
            counted by its validation questions.
        by: what the weights differ by, "relation" or "direction"; "member": one member alone is best.
        own: how many relations and directions have weights of their own.
    """

    names: tuple[str, ...]
    alone: tuple[float, ...]
    blended: float
    tails: tuple[float, ...]
    heads: tuple[float, ...]
    by: str
    own: int

    @classmethod
    def of(cls, run: Run) -> BlendReport:
        """Of a run that ``blend`` made."""
        assert isinstance(run.scorer, BlendScorer)
        weights, num_relations = run.scorer.weights, len(run.relations)
        shares = weights / weights.sum(1, keepdim=True)  # [2R, members]
        asked = torch.bincount(torch.from_numpy(run.split("valid")[:, 1]), minlength=num_relations).double()
        tails, heads = (
            tuple((asked / asked.sum() @ part).tolist()) for part in (shares[:num_relations], shares[num_relations:])
        )
        members = run.state["members"]
        return cls(
            names=tuple(member["name"] for member in members),
            alone=tuple(member["valid_mrr"] for member in members),
            blended=run.state["best_mrr"],
            tails=tails,
            heads=heads,
            by=run.state["weights_by"],
            own=run.state["own"],
        )

    @property
    def verdict(self) -> str:
        """What was found, in a sentence."""
        if self.by == "member":
            best = self.names[max(range(len(self.names)), key=self.tails.__getitem__)]
            return f"on validation {best} alone is as good as any blend: it has all the weight"
        if self.by == "direction":
            return "weights by direction; of single relations they were no better on held-out validation questions"
        return f"weights by relation and direction: {self.own:,} with enough validation questions have their own"

    def as_dict(self) -> JsonObject:
        """For JSON."""
        return asdict(self)
