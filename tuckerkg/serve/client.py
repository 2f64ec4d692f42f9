"""A client for the service in Python, with nothing but the standard library.

from tuckerkg.serve.client import Client
Client("http://127.0.0.1:8000").predict(head="France", relation="borders", k=3)
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from tuckerkg.errors import TuckerkgError


class ServiceError(TuckerkgError):
    """The service refused.

    Attributes:
        status: of HTTP.
        code: a word for programs, such as "unknown-name".
        detail: a sentence for people.
        number: the id under which the service's log has it.
        problem: everything that was said.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status, self.problem = status, dict(problem)
        self.code, self.detail = str(problem.get("code", "none")), str(problem.get("detail", "no reason was given"))
        self.number = str(problem.get("instance", "none"))
        super().__init__(f"{self.detail} (status {status}, {self.code}, id {self.number})")


class Client:
    """Asks one service; answers are plain dictionaries as in its OpenAPI document.

    Args:
        address: where it listens.
        token: where it asks for one.
        seconds: that an answer may take.
        run: which of its runs is asked; None: the first one.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8000",
        token: str | None = None,
        seconds: float = 60.0,
        run: str | None = None,
    ) -> None:
        if not address.startswith(("http://", "https://")):
            raise TuckerkgError(f"{address!r} is no address of a service, such as http://127.0.0.1:8000")
        self.address, self.token, self.seconds, self.run = address.rstrip("/"), token, seconds, run

    def ready(self) -> bool:
        """Whether questions are answered."""
        try:
            self._ask("GET", "/ready", {})
        except ServiceError:
            return False
        return True

    def runs(self) -> dict[str, Any]:
        """The runs that are served, and what you may do."""
        return self._ask("GET", "/api/v1/runs", {})

    def about(self) -> dict[str, Any]:
        """What is served."""
        return self._get("/run")

    def search(self, text: str, limit: int = 20, offset: int = 0) -> list[dict[str, Any]]:
        """Entities by a part of their name; near names where none holds it."""
        return self._list("entities", "/entities", q=text, limit=limit, offset=offset)

    def entity(self, entity: str) -> dict[str, Any]:
        """An entity with its facts by relation."""
        return self._get("/entity", entity=entity)

    def facts(self, entity: str, limit: int = 100, offset: int = 0, relation: str | None = None) -> dict[str, Any]:
        """The facts of an entity, some of all: ``next`` is the offset of the following ones."""
        return self._get("/facts", entity=entity, limit=limit, offset=offset, relation=relation)

    def neighbourhood(self, entity: str, hops: int = 1, limit: int = 50, predicted: bool = False) -> dict[str, Any]:
        """The graph around an entity."""
        return self._get("/neighbourhood", entity=entity, hops=hops, limit=limit, predicted=predicted)

    def nearest(self, entity: str, limit: int = 10) -> list[dict[str, Any]]:
        """Entities like this one."""
        return self._list("entities", "/nearest", entity=entity, limit=limit)

    def relations(self, limit: int = 1_000, offset: int = 0) -> list[dict[str, Any]]:
        """Relations, those with most facts first."""
        return self._list("relations", "/relations", limit=limit, offset=offset)

    def suggestions(self, entity: str) -> list[dict[str, Any]]:
        """Questions that make sense for an entity."""
        return self._list("suggestions", "/suggestions", entity=entity)

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        *,
        known: bool = False,
        typed: bool = True,
        joined: bool = True,
    ) -> list[dict[str, Any]]:
        """Missing links, the best first; see ``Run.predict``."""
        given = {"head": head, "relation": relation, "tail": tail}
        asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        asked |= {"k": k, "known": known, "typed": typed, "joined": joined}
        found: list[dict[str, Any]] = self._post("/predict", asked)["answers"]
        return found

    def predict_batch(self, questions: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]] | ServiceError]:
        """Many questions, each a mapping with what ``predict`` takes; one that fails gives its error."""
        found = self._post("/predict/batch", {"questions": [dict(question) for question in questions]})["results"]
        return [_result(each, "answers") for each in found]

    def score(self, facts: Sequence[tuple[str, str, str]]) -> list[dict[str, Any] | ServiceError]:
        """Whole triples with their probabilities, and whether they are true; one that fails gives its error."""
        asked = {"facts": [{"head": head, "relation": relation, "tail": tail} for head, relation, tail in facts]}
        return [_result(each, "fact") for each in self._post("/score", asked)["results"]]

    def explain(self, head: str, relation: str, tail: str, k: int = 5) -> dict[str, Any]:
        """Why a fact is believed."""
        return self._post("/explain", {"head": head, "relation": relation, "tail": tail, "k": k})

    def missing(self, limit: int = 20, offset: int = 0, **filters: Any) -> dict[str, Any]:
        """The most believed missing facts of the whole graph, or how far the search for them is.

        Filters are relation, type, entity, at_least, decided and reasons.
        """
        return self._get("/missing", limit=limit, offset=offset, **filters)

    def proof(self, limit: int = 20, offset: int = 0) -> dict[str, Any]:
        """Hidden test facts that were found again."""
        return self._get("/proof", limit=limit, offset=offset)

    def decisions(self, limit: int = 100, offset: int = 0, choice: str | None = None) -> dict[str, Any]:
        """What was decided about facts, the last decision first."""
        return self._get("/decisions", limit=limit, offset=offset, choice=choice)

    def decide(
        self, facts: Sequence[tuple[str, str, str]], choice: str, by: str | None = None, note: str = ""
    ) -> dict[str, Any]:
        """Accept, reject or defer facts; ``by`` where no token names who decides."""
        made = [
            {"head": head, "relation": relation, "tail": tail, "choice": choice, "note": note}
            for head, relation, tail in facts
        ]
        return self._post("/decisions", {"decisions": made, **({} if by is None else {"by": by})})

    def undo(self, count: int = 1, by: str | None = None) -> dict[str, Any]:
        """Take back one's own last decisions."""
        return self._post("/decisions/undo", {"count": count, **({} if by is None else {"by": by})})

    def start(self, kind: str, **what: Any) -> dict[str, Any]:
        """Post a job; ``job`` says how far it is."""
        named = {} if self.run is None or kind == "train" else {"run": self.run}
        found: dict[str, Any] = self._ask("POST", "/api/v1/jobs", {}, {"kind": kind, **named, **what})["job"]
        return found

    def job(self, number: str) -> dict[str, Any]:
        """How far a job is, and what came of it."""
        return self._ask("GET", f"/api/v1/jobs/{urllib.parse.quote(number, safe='')}", {})

    def cancel(self, number: str) -> dict[str, Any]:
        """Cancel a job."""
        return self._ask("DELETE", f"/api/v1/jobs/{urllib.parse.quote(number, safe='')}", {})

    # ------------------------------------------------------------------------------------------ requests

    def _list(self, name: str, path: str, **query: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(path, **query)[name]
        return found

    def _get(self, path: str, **query: Any) -> dict[str, Any]:
        return self._ask("GET", f"/api/v1{path}", {"run": self.run, **query})

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._ask("POST", f"/api/v1{path}", {"run": self.run}, body)

    def _ask(
        self, method: str, path: str, query: Mapping[str, Any], body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        given = {name: _word(value) for name, value in query.items() if value is not None}
        address = f"{self.address}{path}" + (f"?{urllib.parse.urlencode(given)}" if given else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data, method=method)  # noqa: S310
        request.add_header("Accept", "application/json")
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=self.seconds) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except OSError as error:
            raise TuckerkgError(f"{self.address}: no answer: {error}. Is `tuckerkg serve` running?") from error


def _word(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _result(found: Mapping[str, Any], name: str) -> Any:
    return found[name] if name in found else ServiceError(int(found["problem"]["status"]), found["problem"])


def _refusal(error: urllib.error.HTTPError) -> ServiceError:
    try:
        said = json.load(error)
        return ServiceError(error.code, said if isinstance(said, dict) else {})
    except ValueError:
        return ServiceError(error.code, {"detail": str(error.reason)})
