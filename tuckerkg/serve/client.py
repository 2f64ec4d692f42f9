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
    """The service refused: ``status``, its words, and the id under which its log has it."""

    def __init__(self, status: int, error: str, number: str) -> None:
        super().__init__(f"{error} (status {status}, id {number})")
        self.status, self.error, self.number = status, error, number


class Client:
    """Asks one service; answers are plain dictionaries as in its OpenAPI document."""

    def __init__(self, address: str = "http://127.0.0.1:8000", token: str | None = None, seconds: float = 60.0) -> None:
        if not address.startswith(("http://", "https://")):
            raise TuckerkgError(f"{address!r} is no address of a service, such as http://127.0.0.1:8000")
        self.address, self.token, self.seconds = address.rstrip("/"), token, seconds

    def ready(self) -> bool:
        """Whether questions are answered."""
        try:
            self._get("/ready")
        except ServiceError:
            return False
        return True

    def about(self) -> dict[str, Any]:
        """What is served."""
        return self._get("/api/run")

    def search(self, text: str, limit: int = 20) -> list[dict[str, Any]]:
        """Entities by a part of their name."""
        found: list[dict[str, Any]] = self._get("/api/entities", q=text, limit=limit)["entities"]
        return found

    def facts(self, entity: str, limit: int = 100) -> dict[str, Any]:
        """The facts of an entity."""
        return self._get("/api/facts", entity=entity, limit=limit)

    def neighbourhood(self, entity: str, hops: int = 1, limit: int = 50) -> dict[str, Any]:
        """The graph around an entity."""
        return self._get("/api/neighbourhood", entity=entity, hops=hops, limit=limit)

    def relations(self) -> list[dict[str, Any]]:
        """All relations."""
        found: list[dict[str, Any]] = self._get("/api/relations")["relations"]
        return found

    def suggestions(self, entity: str) -> list[dict[str, Any]]:
        """Questions that make sense for an entity."""
        found: list[dict[str, Any]] = self._get("/api/suggestions", entity=entity)["suggestions"]
        return found

    def predict(
        self,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        k: int = 10,
        *,
        known: bool = False,
        typed: bool = True,
        joined: bool | None = None,
    ) -> list[dict[str, Any]]:
        """Missing links, the best first; ``joined`` as in ``Run.predict``, None: where the run is quick to ask."""
        asked = _question(head, relation, tail, k, known, typed) | {"joined": joined}
        found: list[dict[str, Any]] = self._post("/api/predict", asked)["answers"]
        return found

    def predict_batch(self, questions: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
        """Many questions, each a mapping with what ``predict`` takes."""
        asked = {"questions": [dict(question) for question in questions]}
        found: list[list[dict[str, Any]]] = self._post("/api/predict/batch", asked)["answers"]
        return found

    def score(self, facts: Sequence[tuple[str, str, str]]) -> list[dict[str, Any]]:
        """Whole triples with their probabilities, and whether they are true."""
        asked = {"facts": [{"head": head, "relation": relation, "tail": tail} for head, relation, tail in facts]}
        found: list[dict[str, Any]] = self._post("/api/score", asked)["facts"]
        return found

    def explain(self, head: str, relation: str, tail: str, k: int = 5) -> dict[str, Any]:
        """Why a fact is believed."""
        asked = {"head": head, "relation": relation, "tail": tail, "k": k}
        found: dict[str, Any] = self._post("/api/explain", asked)["explanation"]
        return found

    def missing(self, limit: int = 20) -> dict[str, Any]:
        """The most believed missing facts of the whole graph, or how far the search for them is."""
        return self._get("/api/missing", limit=limit)

    def _get(self, path: str, **query: Any) -> dict[str, Any]:
        return self._ask(urllib.request.Request(f"{self.address}{path}?{urllib.parse.urlencode(query)}"))  # noqa: S310

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.address}{path}", json.dumps(body).encode())  # noqa: S310
        request.add_header("Content-Type", "application/json")
        return self._ask(request)

    def _ask(self, request: urllib.request.Request) -> dict[str, Any]:
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


def _question(
    head: str | None, relation: str | None, tail: str | None, k: int, known: bool, typed: bool
) -> dict[str, Any]:
    given = {"head": head, "relation": relation, "tail": tail}
    return {
        **{name: value for name, value in given.items() if value is not None},
        "k": k,
        "known": known,
        "typed": typed,
    }


def _refusal(error: urllib.error.HTTPError) -> ServiceError:
    try:
        said = json.load(error)
        return ServiceError(error.code, str(said["error"]), str(said["id"]))
    except (ValueError, KeyError, TypeError):
        return ServiceError(error.code, str(error.reason), "none")
