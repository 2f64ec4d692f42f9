"""Verbs that let others use a run: over HTTP with a page, and by the Model Context Protocol."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuckerkg.cli.classify import is_class_run, load_class_run
from tuckerkg.cli.options import (
    BaseRateOption,
    CheckpointOption,
    ColumnsOption,
    DelimiterOption,
    GraphOption,
    HeaderOption,
    IndexOption,
    IntegersOption,
    LiteralsOption,
    OnErrorOption,
    PluginOption,
    RejectsOption,
    RunArgument,
    graph_options,
    load_run,
    log,
    with_index,
)
from tuckerkg.errors import TuckerkgError

if TYPE_CHECKING:
    from tuckerkg.inference.run import Run


def serve(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders; the first one answers where none is named.", show_default=False)
    ],
    host: Annotated[str, typer.Option(help="The address to listen on; another than loopback needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)] = 8000,
    token: Annotated[
        str | None, typer.Option(envvar="TUCKERKG_TOKEN", help="What clients must send: Authorization: Bearer TOKEN.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A TOML file of tokens with names and roles; it may change.", show_default=False),
    ] = None,
    allow_training: Annotated[
        bool, typer.Option("--allow-training", help="Whoever may decide may send graphs and train them, too.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name that clients may use for this host; may be repeated.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="Pages from elsewhere that may ask, such as https://notebook.example.org; may be repeated."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that answer; they share one mapped table.", min=1)] = 1,
    device: Annotated[
        str | None, typer.Option(help="Where it computes: cpu, cuda.", show_default="as it was trained, else cpu")
    ] = None,
    limits: Annotated[
        Path | None, typer.Option(help="A TOML file of limits on what clients may ask.", show_default=False)
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="One limit, such as compute_seconds=30; may be repeated.", show_default=False),
    ] = None,
    index: IndexOption = None,
    access_log: Annotated[
        Path | None,
        typer.Option(help="Write a line of JSON about every request to this file; - is standard output."),
    ] = None,
    base_rate: BaseRateOption = None,
    graph: GraphOption = None,
    checkpoint: CheckpointOption = "best",
    plugins: PluginOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    header: HeaderOption = None,
    integers: IntegersOption = False,
    keep_literals: LiteralsOption = False,
    on_error: OnErrorOption = "stop",
    rejects: RejectsOption = Path("rejected.tsv"),
) -> None:
    """Serve runs over HTTP: a page to look at them, and the same as JSON. Ctrl-C ends it.

    Examples: `tuckerkg serve runs/demo`, then open http://127.0.0.1:8000/; `tuckerkg serve runs/demo runs/mine`;
    `tuckerkg serve runs/demo --workers 4`.
    """
    try:
        from tuckerkg.serve import server
        from tuckerkg.serve.limits import limits_of
        from tuckerkg.serve.sources import named_sources
        from tuckerkg.serve.watching.access_log import AccessLog
        from tuckerkg.serve.workers import is_worker, supervise, work
    except ImportError as error:
        raise TuckerkgError(f"serving needs {error.name}: pip install 'tuckerkg[serve]'") from error

    options = graph_options(graph, columns, delimiter, header, on_error, rejects, keep_literals, integers)

    def say(text: str) -> None:
        log(f"tuckerkg: {text}")

    def opened(path: Path, version: int | None) -> Run:
        mapped = True if workers > 1 else None
        loaded = load_run(
            path if version is None else Path(f"{path}@{version}"),
            checkpoint=checkpoint,
            graph=graph,
            base_rate=base_rate,
            options=options,
            mapped=mapped,
        )
        if device is not None:
            loaded.move_to(device)
        return with_index(loaded, index)

    allowed = limits_of(limits, limit or [])
    written = None if access_log is None else AccessLog(access_log)
    names, origins = tuple(allow_host or ()), tuple(allow_origin or ())
    door = server.Door(host, port, token, token_file, allow_training, names, origins)
    if any(is_class_run(run) for run in runs):
        if len(runs) > 1 or workers > 1:
            raise TuckerkgError("a run of `classify` is served alone, by one process: give it without other runs")
        of_classes = load_class_run(runs[0], checkpoint)
        say_ready = partial(say, f"ready: {door.address}api/v1/run")
        served = server.serve_classes(of_classes, door, on_ready=say_ready, limits=allowed, log=say, access_log=written)
        raise typer.Exit(served)
    sources = named_sources(runs, opened, follow=graph is None)
    shown = ", ".join(str(run) for run in runs)
    if workers > 1 and not is_worker():
        door.access()  # a wrong file is refused once
        say(f"loading {shown}")
        raise typer.Exit(supervise(door, workers, sys.argv[1:], say))
    if workers > 1:
        raise typer.Exit(work(sources, door, say, allowed, written))
    say(f"loading {shown}")

    def ready() -> None:
        say(f"ready: {door.address}")

    raise typer.Exit(server.serve(sources, door, on_ready=ready, limits=allowed, log=say, access_log=written))


def mcp(
    run: RunArgument,
    http: Annotated[bool, typer.Option("--http", help="Over HTTP instead of standard input and output.")] = False,
    host: Annotated[str, typer.Option(help="The address to listen on; another than loopback needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)] = 8001,
    token: Annotated[
        str | None, typer.Option(envvar="TUCKERKG_TOKEN", help="What clients must send: Authorization: Bearer TOKEN.")
    ] = None,
    decide_as: Annotated[
        str | None,
        typer.Option(help="Let programs decide about facts, under this name.", show_default="they only read"),
    ] = None,
    graph: GraphOption = None,
    checkpoint: CheckpointOption = "best",
    plugins: PluginOption = None,
) -> None:
    """Give programs that talk the tools of a run: search, facts, predict, score, explain, and decide where allowed.

    A client starts it itself, with `tuckerkg mcp runs/mine` as its command; or it is started once, for several, by
    `tuckerkg mcp runs/mine --http`, and clients are given http://127.0.0.1:8001/mcp.
    """
    try:
        import uvicorn

        from tuckerkg.mcp.server import PATH, build_server, http_app
        from tuckerkg.mcp.tools import RunTools
        from tuckerkg.serve.server import Door
    except ImportError as error:
        raise TuckerkgError(f"the protocol needs {error.name}: pip install 'tuckerkg[mcp]'") from error

    if decide_as is not None and not decide_as.strip():
        raise TuckerkgError("--decide-as: give the name under which decisions are kept")
    door = Door(host, port, token)
    listener = door.open() if http else None  # refused before the run is loaded
    tools = RunTools(load_run(run, checkpoint=checkpoint, graph=graph), decide_as)
    server = build_server(tools)
    try:
        if listener is None:
            server.run("stdio")
            return
        log(f"tuckerkg: ready: {door.address.rstrip('/')}{PATH}")
        config = uvicorn.Config(http_app(server, host, token), log_level="warning", lifespan="on")
        uvicorn.Server(config).run([listener])
    finally:
        tools.close()
