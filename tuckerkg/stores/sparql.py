"""A SPARQL endpoint: all its statements in bounded pages, and updates.

Pages follow each other by subject, since many endpoints refuse a large OFFSET. A page may end in the middle of a
subject's statements, because of its limit or of one that the server has, so the last subject of each page is asked for
by itself. Blank nodes have no names that hold from one answer to the next: statements with one are left out, and
counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tuckerkg.errors import TuckerkgError, printable
from tuckerkg.stores.address import Address

if TYPE_CHECKING:
    import requests

PAGE = 10_000  # statements; some public endpoints give no more
LARGEST = 256 << 20  # bytes of one answer
CONNECT_SECONDS, READ_SECONDS = 10.0, 300.0
AGAIN = (429, 502, 503, 504)  # the server is busy, or was
PAUSES = (1.0, 4.0, 16.0)  # seconds before each further attempt
WAITED = 60.0  # seconds that a server may ask to wait
RESULTS = "application/sparql-results+json"
NAMED = "!isBlank(?s) && !isBlank(?o)"

Term = Any  # of pyoxigraph
Row = tuple[Term, Term, Term]


@dataclass(frozen=True)
class Statements:
    """Statements of whole subjects, and the subject that a further reading begins after."""

    rows: list[Row]
    subject: str


class Endpoint:
    """Asks one endpoint.

    Args:
        address: where it answers; updates often go to another one than queries.
        graph: the IRI of a named graph; None: the default graph.
        page: statements of one answer.
        pause: waits some seconds; another one makes tests quick.
    """

    def __init__(
        self,
        address: Address,
        graph: str | None = None,
        page: int = PAGE,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address, self.page, self.pause = address, page, pause
        self.graph = None if graph is None else str(checked_iri(graph))

    def counts(self) -> tuple[int, int]:
        """How many statements there are, and how many of them have a blank node."""
        return self._count(""), self._count("FILTER(isBlank(?s) || isBlank(?o))")

    def statements(self, after: str | None = None) -> Iterator[Statements]:
        """All statements without blank nodes, subject by subject in the order of their IRIs.

        Args:
            after: the IRI of a subject; those up to it are left out.

        Raises:
            TuckerkgError: the endpoint refuses, does not answer, or gives subjects in another order.
        """
        while True:
            begun = "" if after is None else f" && STR(?s) > {_literal(after)}"
            query = f"SELECT DISTINCT ?s ?p ?o WHERE {{ {self._where(f'FILTER({NAMED}{begun})')} }} ORDER BY STR(?s)"
            rows = self._select(f"{query} LIMIT {self.page}")
            if not rows:
                return
            last = rows[-1][0]
            if after is not None and last.value <= after:
                raise TuckerkgError(
                    f"{self.address.url}: gives subjects up to {printable(after)} again, so that it cannot be read in "
                    "pages; export the graph to a file instead"
                )
            whole = [row for row in rows if row[0] != last]
            after = last.value
            yield Statements([*whole, *self._of(last)], after)

    def update(self, text: str) -> None:
        """Run a SPARQL update."""
        self._post({"update": text}, "*/*")

    def _of(self, subject: Term) -> Iterator[Row]:
        """All statements of one subject."""
        place = 0
        while True:
            query = f"SELECT DISTINCT ?p ?o WHERE {{ {self._where('FILTER(!isBlank(?o))', str(subject))} }}"
            found = self._select(f"{query} ORDER BY ?p ?o LIMIT {self.page} OFFSET {place}", ("p", "o"))
            if not found:
                return
            yield from ((subject, predicate, value) for predicate, value in found)
            place += len(found)

    def _count(self, condition: str) -> int:
        query = f"SELECT (COUNT(*) AS ?n) WHERE {{ SELECT DISTINCT ?s ?p ?o WHERE {{ {self._where(condition)} }} }}"
        ((count,),) = self._select(query, ("n",))
        return int(count.value)

    def _where(self, condition: str, subject: str = "?s") -> str:
        pattern = f"{subject} ?p ?o"
        return f"{pattern} {condition}" if self.graph is None else f"GRAPH {self.graph} {{ {pattern} {condition} }}"

    def _select(self, query: str, names: Sequence[str] = ("s", "p", "o")) -> list[Any]:
        import pyoxigraph  # noqa: PLC0415

        content = self._post({"query": query}, RESULTS)
        try:
            found = pyoxigraph.parse_query_results(content, pyoxigraph.QueryResultsFormat.JSON)
            assert isinstance(found, pyoxigraph.QuerySolutions)
            return [tuple(row[name] for name in names) for row in found]
        except (SyntaxError, ValueError, AssertionError, KeyError) as error:
            raise TuckerkgError(
                f"{self.address.url}: its answer is no table of results: {printable(str(error))[:200]}. Is it the "
                "address of a SPARQL endpoint?"
            ) from None

    def _post(self, form: Mapping[str, str], accept: str) -> bytes:
        """Send a form, again after a while where the server is busy."""
        import requests  # noqa: PLC0415  (comes with pooch)

        for pause in (*PAUSES, None):
            try:
                with self._send(requests, form, accept) as answer:
                    if answer.status_code not in AGAIN or pause is None:
                        return self._content(answer)
                    asked = answer.headers.get("retry-after", "")
                    wait = min(float(asked), WAITED) if asked.isdigit() else pause
            except requests.RequestException as error:
                if pause is None:
                    raise TuckerkgError(f"{self.address.url}: no answer: {printable(str(error))[:300]}") from None
                wait = pause
            self.pause(wait)
        raise AssertionError("the last attempt returns or raises")

    def _send(self, requests: Any, form: Mapping[str, str], accept: str) -> requests.Response:
        signed = None if self.address.user is None else (self.address.user, self.address.password)
        return requests.post(  # type: ignore[no-any-return]
            self.address.url,
            data=dict(form),
            headers={"Accept": accept, "User-Agent": "tuckerkg"},
            auth=signed,
            timeout=(CONNECT_SECONDS, READ_SECONDS),
            stream=True,
            allow_redirects=False,  # a POST that is redirected loses its form
        )

    def _content(self, answer: requests.Response) -> bytes:
        if answer.is_redirect:
            raise TuckerkgError(f"{self.address.url}: redirects to {printable(answer.headers['location'])}: use that")
        parts, size = [], 0
        for part in answer.iter_content(1 << 20):
            parts.append(part)
            size += len(part)
            if size > LARGEST:
                raise TuckerkgError(f"{self.address.url}: one answer has more than {LARGEST:,} bytes; give --page")
        content = b"".join(parts)
        if answer.ok:
            return content
        said = printable(" ".join(content.decode(errors="replace").split()))[:300]
        remedy = " Give --user NAME." if answer.status_code == 401 and self.address.user is None else ""
        raise TuckerkgError(f"{self.address.url}: status {answer.status_code}: {said}.{remedy}")


def checked_iri(text: str) -> Term:
    """An IRI as pyoxigraph has it.

    Raises:
        TuckerkgError: it is none.
    """
    import pyoxigraph  # noqa: PLC0415

    try:
        if not urlsplit(text).scheme:
            raise ValueError
        return pyoxigraph.NamedNode(text)
    except ValueError:
        raise TuckerkgError(f"--graph {printable(text)}: is no IRI, such as http://example.org/graph") from None


def _literal(text: str) -> str:
    import pyoxigraph  # noqa: PLC0415

    return str(pyoxigraph.Literal(text))
