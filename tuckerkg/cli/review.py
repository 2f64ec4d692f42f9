"""The verbs about decisions: what people say of predicted facts, and where that goes."""

from __future__ import annotations

import getpass
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuckerkg.cli.options import (
    ColumnsOption,
    DelimiterOption,
    HeaderOption,
    IntegersOption,
    JsonOption,
    KeyOption,
    NodeLabelOption,
    OnErrorOption,
    PluginOption,
    RejectsOption,
    RunArgument,
    StoreGraphOption,
    UnguardedOption,
    UserOption,
    load_run,
    log,
    read_options,
)
from tuckerkg.errors import TuckerkgError

if TYPE_CHECKING:
    from tuckerkg.review.decisions import Decision
    from tuckerkg.stores.address import Address
    from tuckerkg.stores.neo4j import Naming

ByOption = Annotated[str | None, typer.Option(help="Who decides.", show_default="the name you are logged in with")]


def decide(
    run: RunArgument,
    file: Annotated[Path | None, typer.Argument(help="Facts: TSV, CSV, Parquet or RDF.", show_default=False)] = None,
    fact: Annotated[
        tuple[str, str, str] | None, typer.Option(help="One fact instead: HEAD RELATION TAIL.", show_default=False)
    ] = None,
    choice: Annotated[str, typer.Option("--as", help="accept, reject or defer.")] = "accept",
    undo: Annotated[int, typer.Option(help="Take back your last N decisions instead.", min=0)] = 0,
    by: ByOption = None,
    note: Annotated[str, typer.Option(help="Why, in your words.")] = "",
    as_json: JsonOption = False,
    plugins: PluginOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    integers: IntegersOption = False,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
) -> None:
    """Say of predicted facts whether they are accepted, rejected or deferred; kept beside the run, with who and when.

    Nothing is ever overwritten: a later decision about a fact counts, and `--undo` takes back your own. `decisions`
    lists them, and writes them to files or into the graph. Example:
    `tuckerkg decide runs/mine --fact "Marie Curie" born_in Warsaw --as accept`.
    """
    from tuckerkg.inference.query_files import known_triples
    from tuckerkg.review.decisions import Decision, Decisions

    who = _who(by)
    loaded = load_run(run)
    kept = Decisions(loaded.path)
    if undo:
        if file is not None or fact is not None:
            raise TuckerkgError("--undo takes back what was decided: give no facts with it")
        done = kept.undo(who, undo)
        what = "taken back"
    else:
        if (file is None) == (fact is None):
            raise TuckerkgError("give a file of facts or one by --fact HEAD RELATION TAIL")
        Decision.now(("", "", ""), choice, who, note=note)  # refused before the run is asked
        if file is not None:
            ids = known_triples(
                loaded, file, read_options(columns, delimiter, header, on_error, rejects, integers=integers)
            )
            labels = loaded.entities.labels, loaded.relations.labels
            facts = [(labels[0][h], labels[1][r], labels[0][t]) for h, r, t in ids.tolist()]
        else:
            facts = [fact] if fact is not None else []
        done = [
            Decision.now(
                (said.head_label, said.relation_label, said.tail_label),
                choice,
                who,
                probability=said.probability,
                version=loaded.version,
                step=loaded.step,
                note=note,
            )
            for said in (loaded.score(facts) if facts else [])
        ]
        kept.add(done)
        what = {"accept": "accepted", "reject": "rejected", "defer": "deferred"}[choice]
    if as_json:
        print(json.dumps([asdict(each) for each in done], ensure_ascii=False))
        return
    print(f"{len(done):,} {'fact' if len(done) == 1 else 'facts'} {what} by {who}; {_counted(kept.counts())} in all")


def decisions(
    run: RunArgument,
    choice: Annotated[str | None, typer.Option("--only", help="accept, reject or defer.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .tsv, .csv, .json, .jsonl, .parquet or .nt file.", show_default=False)
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Write them into a store: the address of SPARQL updates, or of Neo4j.", show_default=False),
    ] = None,
    user: UserOption = None,
    graph: StoreGraphOption = None,
    key: KeyOption = "name",
    node_label: NodeLabelOption = None,
    add: Annotated[bool, typer.Option("--add", help="Add the accepted facts to the graph: a new version.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit probabilities on what was accepted and rejected.")
    ] = False,
    as_json: JsonOption = False,
    unguarded: UnguardedOption = False,
    plugins: PluginOption = None,
) -> None:
    """List what was decided about predicted facts, write it to a file or a store, or put it to use.

    Example: `tuckerkg decisions runs/mine --only accept --out accepted.tsv`, `tuckerkg decisions runs/mine --add`,
    `tuckerkg decisions runs/mine --only accept --to https://example.org/update --graph http://example.org/predicted`.
    """
    from tuckerkg.inference.answers.files import check_output, write_predictions
    from tuckerkg.review.decisions import CHOICES, Decisions
    from tuckerkg.review.exporting import decision_frame, facts_of
    from tuckerkg.stores.address import parse_address
    from tuckerkg.stores.neo4j import Naming

    if choice is not None and choice not in CHOICES:
        raise TuckerkgError(f"--only {choice}: is no decision, expected {', '.join(CHOICES)}")
    if out is not None:
        check_output(out)
    if to is not None:
        parse_address(to, user)  # refused before the run is opened
    loaded = load_run(run)
    kept = Decisions(loaded.path)
    found = kept.current(choice)
    if out is not None:
        write_predictions(decision_frame(loaded, found), out, guard=not unguarded)
        print(f"{len(found):,} decisions written to {out}")
    if add:
        accepted = facts_of(kept.current("accept"))
        if not accepted:
            raise TuckerkgError(f"{run}: no fact has been accepted, so that there is none to add")
        newer = loaded.add(accepted)
        report = newer.added.report if newer.added is not None else {}
        print(
            f"{report.get('facts', 0):,} accepted facts added, {report.get('known', 0):,} known already: version "
            f"{newer.version} of {run}"
        )
    if calibrate:
        fitted = loaded.calibrate(facts_of(kept.current("accept")), facts_of(kept.current("reject")))
        assert fitted.labelled is not None
        print(f"probabilities fitted on {_counted(kept.counts())}: area under the curve {fitted.labelled.auc:.3f}")
    if to is not None:
        _write_back(found, parse_address(to, user), graph, Naming(key, label=node_label))
    if out is not None or to is not None or add or calibrate:
        return
    if as_json:
        print(json.dumps([asdict(each) for each in found], ensure_ascii=False))
        return
    from tuckerkg.reports import tables

    tables.show_decisions(decision_frame(loaded, found))
    print(f"{_counted(kept.counts())}; {kept.path}")


def _write_back(found: list[Decision], store: Address, graph: str | None, naming: Naming) -> None:
    from tuckerkg.console import progress_bar
    from tuckerkg.inference.answers.files import rdf_term
    from tuckerkg.stores.neo4j import Database
    from tuckerkg.stores.sparql import Endpoint
    from tuckerkg.stores.writing import DecidedFact, write_neo4j, write_sparql

    facts = [DecidedFact(*each.fact, each.choice, each.by, each.at, each.probability) for each in found]
    with progress_bar("writing") as progress:
        if store.kind == "sparql":
            written = write_sparql(Endpoint(store, graph), facts, rdf_term, progress)
        else:
            written = write_neo4j(Database(store, graph, naming), facts, progress)
    print(f"{written:,} decisions written to {store.url}")
    if written < len(facts):
        log(f"warning: {len(facts) - written:,} have an end that no node has as its {naming.key!r}")


def _who(by: str | None) -> str:
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise TuckerkgError("nobody is logged in here: say who decides, --by NAME") from None


def _counted(counts: dict[str, int]) -> str:
    return f"{counts['accept']:,} accepted, {counts['reject']:,} rejected, {counts['defer']:,} deferred"
