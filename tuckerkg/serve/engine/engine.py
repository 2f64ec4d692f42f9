"""One run, ready to be asked over HTTP: its graph, its answers, decisions about them, and searches over all of it.

Everything is loaded once: what happens to the run folder afterwards does not reach it, but for decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Literal

from tuckerkg.inference.run import Run
from tuckerkg.serve.engine.about import RunPage, stamp_of
from tuckerkg.serve.engine.around import Around
from tuckerkg.serve.engine.explaining import Explaining
from tuckerkg.serve.engine.graph import GraphView
from tuckerkg.serve.engine.links import Links, Row
from tuckerkg.serve.engine.listing import Listing
from tuckerkg.serve.engine.names import NoSuchName
from tuckerkg.serve.engine.reviewed import Reviewed
from tuckerkg.serve.engine.whole_graph import MissingSearch, Requests
from tuckerkg.serve.schemas.asked import Asked

MOST_SEARCHES = 32  # relations whose missing facts are kept


class Engine:
    """Answers from one run. Safe to ask from several threads.

    Args:
        run: what is asked.
        name: what it is called; None: as its folder.
        requests: those at work, which searches wait for.
    """

    def __init__(self, run: Run, name: str | None = None, requests: Requests | None = None) -> None:
        self.run, self.requests = run, requests or Requests()
        self.run.scorer  # noqa: B018  (loaded before the service is ready)
        self.run.calibration  # noqa: B018
        self.stamp = stamp_of(run, name)
        self.graph = GraphView(run, self.stamp)
        self.around = Around(self.graph)
        self.reviewed = Reviewed(run.path)
        self.links = Links(self.graph, self.reviewed.choice_of)
        self.explaining = Explaining(self.links)
        self.page = RunPage(self.graph)
        self.listing = Listing(self)
        self._searches: dict[int | None, MissingSearch] = {}
        self._searching = Lock()
        self.graph.warm()
        self.reviewed.now()
        self.answer([Asked(head=run.entities.labels[0], relation=run.relations.labels[0])])

    def answer(self, many: Sequence[Asked]) -> list[list[Row]]:
        """Rows of each question, in their order. Raises NoSuchName."""
        found = []
        for rows in self.links.answer(many):
            if isinstance(rows, NoSuchName):
                raise rows
            found.append(rows)
        return found

    @property
    def sums(self) -> Literal["exact", "estimated"]:
        """Where probabilities come from: sums over all entities, or estimates."""
        return self.page.about.sums

    def search(self, relation: int | None = None) -> MissingSearch:
        """The search for missing facts of the whole graph, or of one relation; begun where it was not."""
        with self._searching:
            found = self._searches.get(relation)
            if found is None:
                if len(self._searches) > MOST_SEARCHES:
                    oldest = next(each for each in self._searches if each is not None)
                    self._searches.pop(oldest).close()
                found = self._searches[relation] = MissingSearch(self.run, self.requests, relation=relation)
        return found

    def drop_search(self, relation: int | None) -> None:
        """End a search and forget it."""
        with self._searching:
            found = self._searches.pop(relation, None)
        if found is not None:
            found.close()

    @cached_property
    def hidden_search(self) -> MissingSearch:
        """The search for the facts of test, as if they were not known."""
        return MissingSearch(self.run, self.requests, hidden=True)

    def close(self) -> None:
        """End what runs in the background."""
        for search in [*self._searches.values(), self.hidden_search]:
            search.close()
