"""The page of results: it says what the files say, and the committed page is the one that they give."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tuckerkg.errors import TuckerkgError
from tuckerkg.paper.claims import claims
from tuckerkg.paper.question_page import Studies
from tuckerkg.paper.reproduce import Outcome
from tuckerkg.paper.results_page import all_outcomes, bench_lines, headline, page, replace_block
from tuckerkg.paper.rows import METRICS, paper_rows

HERE = Path(__file__).parents[2]


def made_up(row, mrr, seed=0):
    return {
        "test": {**dict.fromkeys(METRICS, mrr), "mrr": mrr},
        "test_without_messages": {"mrr": mrr - 0.0015},
        "parameters": {"efp": 1_501_500, "nfp": 3_021_400, "enfp": 2_021_200},
        "encoder": "tgcn",
        "decoder": "tucker",
        "options": {"model": {"dim": row.dim}, "train": {"steps": 300, "epochs": 100.0}},
        "minutes": 41.5,
        "cpu_minutes": 83.0,
        "peak_memory_mb": 1_234,
        "seed": seed,
        "started_from": "",
        "best_epoch": 2.0,
        "curve": [[1.0, mrr / 2], [2.0, mrr]],
    }


def outcomes(values=None):
    """Every row of the paper with the given MRR, or with the paper's own."""
    found = {}
    for row in paper_rows():
        mrr = (values or {}).get(row.name, row.printed("mrr"))
        results = () if mrr is None else tuple(made_up(row, mrr, seed) for seed in row.seeds)
        found[row.name] = Outcome(row, results)
    return found


def said(text):
    """``text`` without its line breaks."""
    return " ".join(text.split())


def test_an_empty_folder_gives_a_page_that_says_not_run(tmp_path):
    text = page(all_outcomes(tmp_path))
    assert "not run" in text
    assert ".359 / –" in text


def test_figures_of_the_runs_stand_beside_the_papers():
    text = page(outcomes({"fb15k-237-tgcn-tucker": 0.3614}))
    assert ".359 / .361" in text
    assert "| .361 ± .000 |" in text
    assert "| +.001 |" in text or "| +.002 |" in text
    assert re.search(r"by less than \.002 in (\d+) of \1 TGCN rows, and in 0 of their \d+ runs validation kept", text)


def test_a_row_whose_start_was_never_beaten_says_so():
    found = outcomes({"wn18rr-tgcn-distmult": 0.45})
    assert "| decoder alone |" not in page(found)
    for result in found["wn18rr-tgcn-distmult"].results:
        result |= {"started_from": "wn18rr-none-distmult-100-seed0", "best_epoch": 0.0}
    (line,) = [line for line in page(found).splitlines() if "| decoder alone |" in line]
    assert "TGCN-DistMult" in line
    found = outcomes({"wn18rr-tgcn-tucker": 0.49})
    found["wn18rr-tgcn-tucker"].results[1].update(started_from="wn18rr-none-tucker-100-seed1", best_epoch=0.0)
    assert re.search(r"in 1 of their \d+ runs validation kept weights from before", said(headline(found)))
    assert "| decoder alone |" not in page(found)


def test_every_line_of_a_table_has_a_cell_for_every_column():
    width = 0
    for line in page(outcomes({"wn18rr-none-conve": 0.44})).splitlines():
        width = 0 if not line.startswith("|") else width or line.count("|")
        assert line.count("|") == width or not line.startswith("|"), line


def test_a_row_that_goes_on_from_another_names_it():
    found = outcomes({"wn18rr-none-conve": 0.44})
    assert "none-complex" not in page(found)
    for result in found["wn18rr-none-conve"].results:
        result["started_from"] = "wn18rr-none-complex-seed0"
    (line,) = [line for line in page(found).splitlines() if "| ConvE |" in line and "| .440 |" in line]
    assert "| none-complex |" in line


def test_a_row_whose_weights_are_from_before_the_messages_says_so():
    found = outcomes({"wn18rr-tgcn-tucker": 0.49})
    for result, epoch in zip(found["wn18rr-tgcn-tucker"].results, (34.0, 42.0, 40.0), strict=True):
        result["options"]["phase"] = [{"epochs": 40.0, "messages": 0.0}, {"messages": 1.0}]
        result["best_epoch"] = epoch
    assert re.search(r"in 2 of their \d+ runs validation kept weights from before", said(headline(found)))


def test_the_headline_names_both_datasets():
    text = headline(outcomes({"wn18rr-tgcn-tucker": 0.49, "wn18rr-paths": 0.55}))
    assert "| WN18RR | .482 | .490 ± .000 |" in text
    assert "| .550 ± .000 | .550 | .550 | .549 | – | 42 |" in text
    assert "| FB15k-237 | .359 |" in text


def blended(mrr):
    group = {"mean": dict.fromkeys(METRICS, mrr), "parameters": 7_654, "minutes": 12.0}
    gap = {"mrr": 0.0123, "low": 0.0087, "high": 0.0151, "p": 0.001}
    groups = [{**group, "name": "asked"}, {**group, "name": "both"}, {**group, "name": "table"}]
    return {"names": ["asked", "table"], "test": {"groups": groups, "differences": {"both": gap, "table": gap}}}


def test_the_page_leads_with_messages_from_the_question():
    found = outcomes({"wn18rr-paths": 0.551, "fb15k-237-paths": 0.391})
    text = page(found, studies=Studies({"wn18rr": blended(0.567)}, []))
    assert text.index("## TGCN from the question") < text.index("## The paper's main table")
    assert "| WN18RR | TGCN-TuckER, as the paper prints it | .482 | .441 | .500 | .560 |" in text
    assert (
        "| WN18RR | TGCN from the question | .551 ± .000 | .551 | .551 | .551 | 4,522,900 | .550 | 41.5 | 41.5 |"
        in text
    )
    assert "| WN18RR | blend of asked and table | .567 | .567 | .567 | .567 | 7,654 | – | 12.0 | – |" in text
    assert (
        "has +.012 over asked, its better member (95 % interval of a paired bootstrap over triples +.009 to +.015)"
        in text
    )
    assert "| .567 | 42 |" in headline(found, Studies({"wn18rr": blended(0.567)}, []))
    assert "Entities never seen" not in text


def test_graphs_that_were_never_seen_have_a_line_each():
    one = {"mrr": 0.43, "hits@10": 0.6, "hits@10_of_50": 0.8}
    rows = [
        {
            "graph": "fb237_v1",
            "seed": seed,
            "minutes": 2.0 + seed,
            "test": {**one, "mrr": 0.42 + seed / 50},
            "valid+test": one,
        }
        for seed in range(2)
    ]
    text = page(outcomes(), studies=Studies({}, rows))
    assert "| fb237_v1 | 2 | .430 ± .014 | .422 | .600 ± .000 | .430 ± .000 | .600 ± .000 | .800 ± .000 | 3.0 |" in text


def trust_row(dataset="umls"):
    part = {"facts": 40, "accuracy": 0.91, "unsure": 0.1, "accuracy_with_unsure": 0.87, "auc": 0.95}
    low = part | {"accuracy_with_unsure": 0.55}
    return {
        "dataset": dataset,
        "kind": "blend",
        "first": [{"count": 20, "said": 0.98, "true": 0.95}, {"count": 100, "said": 0.9, "true": 0.89}],
        "ece": {"questions": 0.004, "top missing": 0.021},
        "truth": part,
        "truth_by_relation": {"http://x#likes": low, "knows": part, "rare": low | {"facts": 3}},
    }


def test_what_is_said_and_what_is_true_stands_side_by_side(tmp_path):
    text = page(outcomes(), studies=Studies({}, [], [trust_row()]))
    assert "| umls | blend | .980 / .950 | .900 / .890 | – | – | 0.004 | 0.021 |" in text
    assert "| umls | 40 | .910 | 10.0% | .870 | .950 |" in text
    assert "1 of 2 relations with 20 facts or more stay below .80 with unsure as half right" in text
    assert "`likes` .550" in text
    pytest.importorskip("matplotlib")
    from tuckerkg.paper.figures import draw_figures

    assert draw_figures(outcomes(), tmp_path, Studies({}, [], [trust_row()]))[0] == "trust.png"


def class_row(name, how, accuracies, **values):
    return {
        "set": name, "encoder": "auto", "how": how, "accuracy": sum(accuracies) / len(accuracies), "deviation": 0.02,
        "all": accuracies, **values,
    }  # fmt: skip


def test_classes_stand_beside_encoders_and_counts_alone():
    alone = {"encoder_alone": [0.8, 0.9], "counts_alone": [None, 0.7], "seconds_a_run": 8.4}
    rows = [class_row("aifb", "split", [0.9, 1.0], **alone), class_row("tu-mutag", "folds", [0.85, 0.95])]
    text = page(outcomes(), studies=Studies({}, [], classes=rows))
    first = (
        "| AIFB | what is chosen | fixed split, 2 seeds | 95.0 ± 2.0 | 90.0 to 100.0 | 85.0 | 70.0 | R-GCN 95.8 | 8 |"
    )
    assert first in text
    assert (
        "| MUTAG (molecules) | what is chosen | ten folds, 2 parts | 90.0 ± 2.0 | 85.0 to 95.0 | – | – | GIN 89.4 | – |"
        in text
    )


def sparsity_row(graph, model, mrr, **values):
    bins = [{"facts": 0, "mrr": mrr / 2, "questions": 3}, {"facts": 4, "mrr": mrr, "questions": 17}]
    return {
        "dataset": "wn18rr", "graph": graph, "model": model, "mrr": mrr, "questions": 20, "train_facts": 86_835,
        "cpu_minutes": 4.4, "asked": bins, "answer": bins[1:], **values,
    }  # fmt: skip


def test_where_an_encoder_pays_is_said_of_the_rows(tmp_path):
    rows = [sparsity_row("all", "off", 0.44), sparsity_row("all", "on", 0.441, without_messages=0.43)]
    rows += [sparsity_row("all", "paths", 0.5), sparsity_row("thin", "off", 0.2), sparsity_row("thin", "on", 0.25)]
    text = page(outcomes(), studies=Studies({}, [], sparsity=rows))
    assert "| WN18RR | all facts | 86,835 | 20 | .440 | .441 | .430 | .500 | 4 / 4 / 4 |" in text
    assert "| WN18RR | 1 to 3 facts left | 86,835 | 20 | .200 | .250 | – | – | 4 / 4 / – |" in text
    assert "by more than .005 on WN18RR with 1 to 3 facts left (+.050)." in text
    assert "From the question is best on WN18RR with all facts." in text
    asked = "| WN18RR | all facts | entity that is asked about | .220 / .221 / .250 | – | – | .440 / .441 / .500 |"
    assert asked in text
    assert "| WN18RR | 1 to 3 facts left | answer | – | – | – | .200 / .250 / – | – | – | – | – |" in text
    pytest.importorskip("matplotlib")
    from tuckerkg.paper.figures import draw_figures

    assert draw_figures(outcomes(), tmp_path, Studies({}, [], sparsity=rows))[0] == "sparsity.png"
    assert (tmp_path / "sparsity.png").stat().st_size > 5_000


def printed_row(**values):
    curve = [
        {"step": step, "valid": step / 1000, "valid_without_messages": None if step == 500 else 0.01}
        for step in (250, 500, 750)
    ]
    return {
        "experiment": "paper-wn18rr-tgcn-tucker", "run": "wn18rr", "steps": 750, "best_step": 500, "lr": 0.0005,
        "first_lr": 0.001, "minutes": 90.4, "test": {"mrr": 0.4}, "test_without_messages": {"mrr": 0.31},
        "curve": curve, **values,
    }  # fmt: skip


def test_the_recipe_as_printed_stands_beside_the_paper(tmp_path):
    rows = [printed_row(), printed_row(experiment="own", run="changed")]
    text = page(outcomes(), studies=Studies({}, [], printed=rows))
    assert "`paper-wn18rr-tgcn-tucker` | 750 | 500 | 0.50 | .482 | .400 | .310 | +.090 | -.082 | 90 |" in text
    assert "| changed | `own` | 750 | 500 | 0.50 | – | .400 | .310 | +.090 | – | 90 |" in text
    pytest.importorskip("matplotlib")
    from tuckerkg.paper.figures import draw_figures

    assert draw_figures(outcomes(), tmp_path, Studies({}, [], printed=rows))[0] == "printed.png"
    assert (tmp_path / "printed.png").stat().st_size > 5_000


def test_studies_are_read_where_they_are(tmp_path):
    assert Studies.read(tmp_path) == Studies({}, [])
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "blend-wn18rr.json").write_text(json.dumps(blended(0.5)), encoding="utf-8")
    (tmp_path / "studies" / "unseen.json").write_text("[]", encoding="utf-8")
    assert Studies.read(tmp_path) == Studies({"wn18rr": blended(0.5)}, [])


def test_the_decoder_alone_is_held_against_the_seeds_that_both_have():
    found = outcomes()
    start, top = found["wn18rr-none-tucker-100"], found["wn18rr-tgcn-tucker"]
    found["wn18rr-none-tucker-100"] = Outcome(
        start.row, tuple(made_up(start.row, mrr, seed) for seed, mrr in enumerate((0.41, 0.42, 0.43)))
    )
    found["wn18rr-tgcn-tucker"] = Outcome(top.row, (made_up(top.row, 0.45, seed=1),))
    assert "| .482 | .450 (1 of 3 seeds) | .420 | – |" in headline(found)
    assert found["wn18rr-none-tucker-100"].beside(Outcome(top.row, ())).mean() == pytest.approx(0.42)


def test_with_the_papers_own_figures_its_claims_hold():
    values = {
        "fb15k-237-none-distmult-100": 0.241,
        "wn18rr-none-distmult-100": 0.430,
    }
    found = outcomes(values)
    judged = {claim.sentence: claim.ours(found) for claim in claims()}
    assert all(judged.values())
    assert [sentence for sentence, ours in judged.items() if not ours[1]] == []


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.sentence)
def test_a_claim_can_fail(claim):
    flat = outcomes({row.name: 0.2 for row in paper_rows()})
    flat["wn18rr-tgcn-tucker"] = flat["fb15k-237-tgcn-tucker"]
    ours = claim.ours(flat)
    assert ours is not None
    assert ours[1] == (claim.sentence == "a CP core costs little on FB15k-237")


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.sentence)
def test_a_claim_waits_for_its_runs(claim, tmp_path):
    assert claim.ours(all_outcomes(tmp_path)) is None


def test_a_curve_says_what_its_points_were_given(tmp_path):
    found = outcomes()
    assert "300 steps a point on FB15k-237, 300 steps a point on WN18RR" in page(found)
    assert page(found).count("| .330 | .330 | +.000 | +.002 | 2,021,200 | 41.5 |") == 1
    longer = found["wn18rr-tgcn-tucker-subgraph20000"].results[0]["options"]
    longer["train"] = {"steps": 0, "epochs": 12.0}
    assert "12 epochs or 300 steps a point on WN18RR" in page(found)
    assert "a point on" not in page(all_outcomes(tmp_path))


def test_a_block_is_replaced_between_its_marks(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- x -->\nold\n<!-- end x -->\nb\n", encoding="utf-8")
    assert replace_block(path, "x", "new") == "a\n<!-- x -->\nnew\n<!-- end x -->\nb\n"
    for there, said in ((path, "no <!-- y -->"), (tmp_path / "missing.md", "cannot be read")):
        with pytest.raises(TuckerkgError, match=said) as error:
            replace_block(there, "y", "new")
        assert str(there) in str(error.value)


def test_figures_are_drawn_with_and_without_runs(tmp_path):
    from tuckerkg.paper.figures import draw_figures

    for found in (outcomes(), all_outcomes(tmp_path / "none")):
        names = draw_figures(found, tmp_path / "figures")
        assert len(names) == 5
        assert all((tmp_path / "figures" / name).stat().st_size > 5_000 for name in names)


def test_the_committed_pages_are_what_the_result_files_give():
    found = all_outcomes(HERE / "results")
    studies = Studies.read(HERE / "results")
    figures = [f"{name}.png" for name in ("trust", "sparsity", "printed") if getattr(studies, name)]
    figures += ["question.png", "bases.png", "subgraph-fb15k-237.png", "subgraph-wn18rr.png", "minutes.png"]
    text = (HERE / "RESULTS.md").read_text(encoding="utf-8")
    pictures = [f"results/figures/{name}" for name in figures]
    assert text == page(found, pictures, bench_lines(HERE / "results"), studies), "run `make results`"
    readme = HERE / "README.md"
    filled = replace_block(readme, "headline", headline(found, studies))
    assert readme.read_text(encoding="utf-8") == filled, "`make results`"
