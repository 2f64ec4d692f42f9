"""Reports as files: a run's HTML page, its model card, and the page on a graph before training.

A page is one file that loads nothing from elsewhere: pictures are inside it, labels are escaped, scripts forbidden.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from tuckerkg.errors import TuckerkgError, printable
from tuckerkg.inference.run import Run, load
from tuckerkg.reports.inspection import Inspection
from tuckerkg.reports.plots import plain, pyplot
from tuckerkg.reports.run_report import RunReport, Unmeasured, report_of
from tuckerkg.storage.sealed_folder import write_atomic
from tuckerkg.tasks.run import ClassRun
from tuckerkg.tasks.task import notes_of
from tuckerkg.types import LogFunction, ignore

ACCENT, OTHER = "#0b6e99", "#d1495b"
ENOUGH = 20  # test questions of a relation that a card calls weak
WEAKEST = 5
BARS = 25  # relations in a picture


@dataclass(frozen=True)
class Figure:
    """A picture inside a page: an SVG as a data address."""

    caption: str
    data: str


def check_page(path: Path, *, pictures: bool = True) -> None:
    """Refuse what could not be written, before anything is computed; ``pictures`` need a library."""
    if path.suffix.lower() not in (".html", ".md"):
        raise TuckerkgError(f"{path}: the name must end in .html (the report) or .md (the model card)")
    if not path.resolve().parent.is_dir():
        raise TuckerkgError(f"{path}: there is no folder {path.resolve().parent}")
    if pictures and path.suffix.lower() == ".html":
        pyplot()


def report(run: Run | str | Path, path: str | Path, log: LogFunction = ignore) -> Path:
    """Rank the test split of a run, or run folder, and write a page on it: .html, or .md for a model card.

    Of a run that was trained on all facts it has what was measured on the run before.
    """
    check_page(Path(path))
    opened = run if isinstance(run, Run) else load(run)
    if len(opened.split("valid")) + len(opened.split("test")) == 0:
        write_unmeasured(Unmeasured(opened), Path(path))
    else:
        write_report(report_of(opened, log), Path(path))
    return Path(path)


def write_unmeasured(found: Unmeasured, path: Path) -> None:
    """The page or card of a run that nothing was held out of."""
    template = "unmeasured.md" if path.suffix.lower() == ".md" else "unmeasured.html"
    write_atomic(path, _rendered(template, title=found.run.path.resolve().name, report=found).encode())


def write_report(found: RunReport, path: Path) -> None:
    """The HTML report, or the model card where ``path`` ends in .md."""
    rows = [("all", found.test.overall), *found.test.by_direction.items(), ("entities seen", found.test.seen_only)]
    if path.suffix.lower() == ".md":
        weak = sorted((part for part in found.relations if part.queries >= ENOUGH), key=lambda part: part.mrr[0])
        text = _rendered("card.md", title=found.name, report=found, rows=rows, weakest=weak[:WEAKEST], least=ENOUGH)
    else:
        figures = [_degrees(found), _reliability(found)]
        if not found.run.members:  # a blend was not trained
            figures.insert(0, _curve(found))
        text = _rendered("report.html", title=found.name, report=found, rows=rows, figures=figures)
    write_atomic(path, text.encode())


def write_class_report(run: ClassRun, path: Path) -> None:
    """The page, or the card where ``path`` ends in .md, of a run that puts nodes or graphs into classes."""
    names = {"valid": "labels that members did not see", "test": "held-out labels"}
    found = {names[part]: each for part, each in run.judged().items()}
    facts = {
        "target": run.task.target, "classes": ", ".join(run.task.classes), "encoder": run.settings.encoder.name,
        "items": f"{run.task.num_items:,} {run.task.kind}", "facts": f"{len(run.task.triples):,}",
        "members": str(len(run.scores)),
    }  # fmt: skip
    for voters, shares in run.alone().items():
        facts[f"{voters} alone"] = ", ".join(f"{names[part]} {share:.1%} right" for part, share in shares.items())
    kind = "md" if path.suffix.lower() == ".md" else "html"
    text = _rendered(
        f"classes.{kind}", title=run.path.resolve().name, facts=facts, notes=notes_of(run.task), found=found
    )
    write_atomic(path, text.encode())


def write_inspection(found: Inspection, path: Path) -> None:
    """The HTML page on a graph before training."""
    figures = [_relation_sizes(found), _quantiles(found)]
    text = _rendered("inspect.html", title=found.name, found=found, figures=figures)
    write_atomic(path, text.encode())


def _rendered(template: str, *, title: str, **values: Any) -> str:
    pages = Environment(
        loader=PackageLoader("tuckerkg.reports", "templates"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    pages.filters["shown"] = printable
    pages.filters["cell"] = _cell
    version = metadata.version("tuckerkg")
    return pages.get_template(template).render(title=printable(title), program_version=version, **values)


def _cell(text: Any) -> str:
    """Text that stays text in a Markdown table."""
    flat = printable(str(text)).replace("\n", " ")
    return "".join(f"\\{character}" if character in "\\`*_{}[]<>()#+!|~$" else character for character in flat)


def _picture(figure: Any, caption: str) -> Figure:
    plots = pyplot()
    written = io.BytesIO()
    figure.tight_layout()
    figure.savefig(written, format="svg")
    plots.close(figure)
    return Figure(caption, "data:image/svg+xml;base64," + base64.b64encode(written.getvalue()).decode())


def _axes(width: float = 7.5, height: float = 3.4) -> tuple[Any, Any]:
    figure, axes = pyplot().subplots(figsize=(width, height))
    axes.grid(alpha=0.3)
    return figure, axes


def _curve(found: RunReport) -> Figure:
    figure, axes = _axes()
    axes.plot([epoch for epoch, _ in found.curve], [mrr for _, mrr in found.curve], "o-", color=ACCENT)
    axes.set_xlabel("epoch")
    axes.set_ylabel("validation MRR")
    return _picture(figure, "Validation MRR while training")


def _degrees(found: RunReport) -> Figure:
    figure, axes = _axes()
    axes.bar([part.name for part in found.degrees], [part.mrr[0] for part in found.degrees], color=ACCENT)
    axes.tick_params(axis="x", rotation=45)
    axes.set_xlabel("training facts about the answer")
    axes.set_ylabel("test MRR")
    return _picture(figure, "Test MRR by the number of training facts about the answer")


def _reliability(found: RunReport) -> Figure:
    figure, axes = _axes(5.0, 4.2)
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1)
    for what, colour, label in ((found.calibrated, ACCENT, "fitted"), (found.plain, OTHER, "plain sigmoid")):
        axes.plot(
            [each.confidence for each in what.bins],
            [each.accuracy for each in what.bins],
            "o-",
            color=colour,
            label=label,
        )
    axes.set_xlabel("probability")
    axes.set_ylabel("share that was true")
    axes.legend()
    return _picture(figure, "Reliability over the ten best candidates of every test question")


def _relation_sizes(found: Inspection) -> Figure:
    shown = found.relations[:BARS][::-1]
    figure, axes = _axes(7.5, 1.0 + 0.25 * max(len(shown), 2))
    axes.barh([plain(each.name, 50) for each in shown], [each.triples for each in shown], color=ACCENT)
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("training triples")
    return _picture(figure, f"The {len(shown)} relations with most training triples")


def _quantiles(found: Inspection) -> Figure:
    figure, axes = _axes()
    shares = sorted(found.degrees, key=float)
    axes.plot([100 * float(share) for share in shares], [found.degrees[share] for share in shares], "o-", color=ACCENT)
    axes.set_yscale("symlog")
    axes.set_xlabel("percent of the entities")
    axes.set_ylabel("training triples, at most")
    return _picture(figure, "How many training triples entities stand in")
