"""Measure an index of candidates against the exact scan: recall@10 and milliseconds a question.

    python scripts/measure_index.py runs/fb15k-237 runs/wn18rr --grown 1000000 --noise 0.3 --out index.json

Of each run its own table is measured, and one of ``--grown`` vectors made of it: its rows, then rows drawn at random
with noise of ``--noise`` deviations in each direction. Questions are about training facts, in both directions; those
that recall is measured on are others than those that choose how many lists are read. Nothing else should run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from tuckerkg.inference.index.candidates import PROPOSED, CandidateIndex
from tuckerkg.inference.index.of_run import some_questions
from tuckerkg.inference.index.search import Candidates, measured
from tuckerkg.inference.run import load
from tuckerkg.kernels.topk import top_of_rows
from tuckerkg.nn.embedding_scorer import EmbeddingScorer


def grown(scorer: EmbeddingScorer, count: int, noise: float) -> EmbeddingScorer:
    """The same model over its entities, as they are encoded, and others made of them."""
    random = torch.Generator().manual_seed(0)
    table = scorer.entities
    chosen = torch.randint(len(table), (count - len(table),), generator=random)
    shift = noise * table.std(0) * torch.randn(len(chosen), table.shape[1], generator=random)
    model = scorer.model
    bias = None if model.bias is None else torch.cat([model.bias.detach(), model.bias.detach()[chosen]])
    model.hold(torch.cat([table, table[chosen] + shift]), bias)
    return EmbeddingScorer(model, scorer.train[:0])


def milliseconds(action: Callable[[Tensor], object], questions: Tensor) -> float:
    """The median of single questions."""
    action(questions[:1])
    took = []
    for place in range(len(questions)):
        clock = time.perf_counter()
        action(questions[place : place + 1])
        took.append(time.perf_counter() - clock)
    return round(1e3 * sorted(took)[len(took) // 2], 3)


def line_of(name: str, scorer: EmbeddingScorer, questions: Tensor) -> dict[str, object]:
    candidates = Candidates(scorer)
    clock = time.perf_counter()
    index = CandidateIndex.of(candidates.vectors)
    built = time.perf_counter() - clock
    quality = measured(candidates, index, questions)

    def by_scan(asked: Tensor) -> object:
        scores = scorer.scores(*asked.unbind(1))
        return top_of_rows(scores, 10), torch.logsumexp(scores, 1)

    def by_index(asked: Tensor) -> object:
        queries = candidates.queries(*asked.unbind(1))
        ids = index.propose(queries, PROPOSED)
        scores = candidates.scores(queries, ids)
        return top_of_rows(scores, 10), candidates.log_sums(queries, ids, scores)

    some = questions[1:400:2]
    return {
        "run": name,
        "entities": scorer.num_entities,
        "width": candidates.vectors.shape[1],
        "build_seconds": round(built, 1),
        "scan_ms": milliseconds(by_scan, some),
        "index_ms": milliseconds(by_index, some),
        **quality,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--grown", type=int, default=1_000_000)
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--checkpoint", default="best")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    lines = []
    for path in given.runs:
        run = load(path, calibrated=False, checkpoint=given.checkpoint)
        scorer = run.scorer
        assert isinstance(scorer, EmbeddingScorer)
        assert isinstance(scorer.model.entities, nn.Parameter)
        questions = some_questions(run.split("train"), scorer.num_relations)
        sizes = [scorer.num_entities] + [given.grown] * (given.grown > scorer.num_entities)
        for size in sizes:
            asked = scorer if size == scorer.num_entities else grown(scorer, size, given.noise)
            lines.append(line_of(run.settings.experiment or path.name, asked, questions))
            print(json.dumps(lines[-1]), flush=True)
    if given.out is not None:
        given.out.write_text(
            json.dumps({"threads": given.threads, "noise": given.noise, "lines": lines}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
