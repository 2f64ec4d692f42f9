"""RDF files to rows: N-Triples, N-Quads, Turtle, N3 and RDF/XML, plain or gzip, read by pyoxigraph, offline.

An entity's label is its IRI. Blank nodes are numbered in the order in which the file first names them, with the file's
name in front, since they mean something within their file only. Literals are not entities: they are left out and
counted, or kept as entities if asked for. Either way ``rdfs:label``, or else a literal that some other vocabulary calls
a name, label or title, is the readable name of its subject.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from tuckerkg.data.readers.bytes import FileBytes, refuse
from tuckerkg.errors import InputError, Problem

SUFFIXES = {
    ".nt": "N_TRIPLES",
    ".nq": "N_QUADS",
    ".ttl": "TURTLE",
    ".n3": "N3",
    ".trig": "TRIG",
    ".rdf": "RDF_XML",
    ".owl": "RDF_XML",
}
BY_LINE = ("N_TRIPLES", "N_QUADS")
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
OTHER_LABELS = ("preflabel", "label", "name", "title")  # ends of predicates, best first
PREFERRED_LANGUAGES = ("", "en")
WORST_TITLE = (len(OTHER_LABELS) + 1) * (len(PREFERRED_LANGUAGES) + 1)


@dataclass
class Statements:
    """What one RDF file says, in file order: three columns of labels, and what was left out."""

    heads: list[str] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    tails: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)  # lines of a format with one statement a line, else statements
    titles: dict[str, str] = field(default_factory=dict)
    title_ranks: dict[str, int] = field(default_factory=dict)  # of each title: lower is better
    literals: int = 0  # left out
    graphs: int = 0  # named graphs, whose names are dropped
    bad: list[tuple[Problem, str]] = field(default_factory=list)  # with the original text


def is_rdf(shown: str) -> bool:
    """Whether the name of a file, without ``.gz``, says that it is RDF."""
    return rdf_format(shown) is not None


def rdf_format(shown: str) -> str | None:
    """The name of the format of a file, by its ending."""
    suffixes = [suffix.lower() for suffix in Path(shown).suffixes if suffix.lower() != ".gz"]
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def read_statements(content: FileBytes, *, keep_literals: bool = False, skip_bad: bool = False) -> Statements:
    """All statements of a file; raises InputError with line and remedy where it breaks its format's rules.

    ``skip_bad`` sets bad lines of N-Triples and N-Quads aside; in other formats what follows an error has no meaning.
    """
    name = rdf_format(content.shown)
    if name is None:
        raise ValueError(f"{content.shown} is not named as an RDF file")
    if name == "RDF_XML":
        _check_xml(content)
    return read_block(content, Terms(content.shown), keep_literals=keep_literals, skip_bad=skip_bad)


def read_block(content: FileBytes, terms: Terms, *, keep_literals: bool, skip_bad: bool) -> Statements:
    """The statements of whole lines of N-Triples or N-Quads, or of a whole file; ``terms`` outlives the block."""
    name = rdf_format(content.shown) or ""
    found = _Collector(terms, keep_literals)
    try:
        for number, quad in _numbered(content.data, name, content.shown):
            found.see(number, quad)
    except SyntaxError as error:
        if not (skip_bad and name in BY_LINE):
            raise InputError(_problem(content, name, error)) from error
        found = _line_by_line(content, name, _Collector(terms, keep_literals))
    return found.statements


def _parser(data: bytes, name: str, shown: str) -> Any:
    import pyoxigraph  # noqa: PLC0415 - only needed for RDF

    base = f"file:///{Path(shown).name.replace(' ', '%20')}" if name not in BY_LINE else None
    return pyoxigraph.parse(data, format=getattr(pyoxigraph.RdfFormat, name), base_iri=base)


def _numbered(data: bytes, name: str, shown: str) -> Iterator[tuple[int, Any]]:
    """Statements with their number: the line, where a line is a statement."""
    parser = _parser(data, name, shown)
    if name not in BY_LINE:
        yield from enumerate(parser, 1)
        return
    lines = (number for number, line in enumerate(data.split(b"\n"), 1) if _says_something(line))
    yield from zip(lines, parser, strict=False)


def _says_something(line: bytes) -> bool:
    line = line.strip()
    return bool(line) and not line.startswith(b"#")


def _line_by_line(content: FileBytes, name: str, found: _Collector) -> _Collector:
    for number, line in enumerate(content.data.split(b"\n"), 1):
        try:
            for quad in _parser(line, name, content.shown):
                found.see(number, quad)
        except SyntaxError as error:
            what = f"{_words(error)}; mend or remove the line"
            problem = Problem(content.shown, number, error.offset or 1, what)
            found.statements.bad.append((problem, line.decode("utf-8", "replace")))
    return found


class Terms:
    """What the blocks of a file share: the numbers of its blank nodes, and its named graphs."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.stem = Path(shown).name.split(".")[0]
        self.blank: dict[str, str] = {}
        self.graphs: set[str] = set()

    def blank_label(self, name: str) -> str:
        """The label of a blank node."""
        return self.blank.setdefault(name, f"_:{self.stem}-{len(self.blank) + 1}")


class _Collector:
    """Turns terms into labels."""

    def __init__(self, terms: Terms, keep_literals: bool) -> None:
        import pyoxigraph  # noqa: PLC0415

        self.kinds = pyoxigraph
        self.terms, self.keep_literals = terms, keep_literals
        self.statements = Statements()

    def see(self, number: int, quad: Any) -> None:
        """One statement."""
        found = self.statements
        if not isinstance(quad.graph_name, self.kinds.DefaultGraph):
            self.terms.graphs.add(str(quad.graph_name))
            found.graphs = len(self.terms.graphs)
        terms = quad.subject, quad.predicate, quad.object
        if any(isinstance(term, self.kinds.Triple) for term in terms):
            what = "a statement about a statement cannot be a fact between two entities; remove it"
            found.bad.append((Problem(self.terms.shown, number, 1, what), str(quad)))
            return
        head = self.label(quad.subject)
        if isinstance(quad.object, self.kinds.Literal):
            self.title(head, quad.predicate.value, quad.object)
            if not self.keep_literals:
                found.literals += 1
                return
        found.heads.append(head)
        found.relations.append(quad.predicate.value)
        found.tails.append(self.label(quad.object))
        found.numbers.append(number)

    def label(self, term: Any) -> str:
        """IRIs as they are, blank nodes by number, literals as RDF writes them."""
        if isinstance(term, self.kinds.NamedNode):
            return str(term.value)
        if isinstance(term, self.kinds.BlankNode):
            return self.terms.blank_label(term.value)
        return str(term)

    def title(self, head: str, predicate: str, literal: Any) -> None:
        """A readable name, if it is one: by predicate, then without a language or in English, then the first."""
        end = (local_name(predicate) or "").casefold()
        if predicate != LABEL and end not in OTHER_LABELS:
            return
        kind = 0 if predicate == LABEL else 1 + OTHER_LABELS.index(end)
        language = literal.language or ""
        tongue = PREFERRED_LANGUAGES.index(language) if language in PREFERRED_LANGUAGES else len(PREFERRED_LANGUAGES)
        rank = kind * (len(PREFERRED_LANGUAGES) + 1) + tongue
        if literal.value.strip() and rank < self.statements.title_ranks.get(head, WORST_TITLE):
            self.statements.title_ranks[head] = rank
            self.statements.titles[head] = literal.value.strip()


def local_name(label: str) -> str | None:
    """The readable end of an IRI, for labels without a title of their own."""
    if label.startswith("_:") or "://" not in label:
        return None
    end = label.rstrip("#/").replace("#", "/").rsplit("/", 1)[-1]
    return end or None


def _check_xml(content: FileBytes) -> None:
    """Refuse entities, which can grow without bound or name other files, and XML that breaks off.

    pyoxigraph takes a document that ends too early for a whole one, and names no lines in XML.
    """
    place = content.data.find(b"<!ENTITY")
    if place >= 0:
        line = content.data.count(b"\n", 0, place) + 1
        what = "declares XML entities, which are not expanded; write the names out in full, or convert it to Turtle"
        refuse(content.shown, what, line, 1)
    try:
        expat.ParserCreate().Parse(content.data, True)
    except expat.ExpatError as error:
        what = f"not well-formed XML: {expat.errors.messages[error.code]}; mend it, or is the file cut off?"
        refuse(content.shown, what, error.lineno, error.offset + 1)


def _problem(content: FileBytes, name: str, error: SyntaxError) -> Problem:
    what = _words(error)
    if name in BY_LINE and (b"@prefix" in content.data or b"PREFIX" in content.data.upper()[:10_000]):
        what += "; the file looks like Turtle: give it a name that ends in .ttl"
    elif name in BY_LINE:
        what += "; mend the line, or pass --on-error=skip to set bad lines aside"
    else:
        where = "there" if error.lineno else "(the parser of this format gives no line)"
        what += f"; mend it {where}: what follows an error has no meaning in this format"
    return Problem(content.shown, error.lineno, error.offset, what)


def _words(error: SyntaxError) -> str:
    """The parser's message without the place, which is shown in front."""
    message = str(error.msg or error)
    place, sign, rest = message.partition(": ")
    return rest if sign and place.startswith("Parser error at line") else message
