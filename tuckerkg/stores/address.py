"""Which store an address means, and who may use it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from tuckerkg.errors import TuckerkgError, printable

PASSWORD = "TUCKERKG_STORE_PASSWORD"  # noqa: S105  (the name of a variable)
BOLT = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
Kind = Literal["sparql", "neo4j"]


@dataclass(frozen=True)
class Address:
    """Where a store is. ``user`` signs in with the password of the environment, where one is given."""

    url: str
    kind: Kind
    user: str | None = None

    @property
    def password(self) -> str:
        """From the environment, so that no list of processes shows it.

        Raises:
            TuckerkgError: the variable is not set.
        """
        found = os.environ.get(PASSWORD)
        if found is None:
            raise TuckerkgError(f"--user {self.user}: put the password into the environment variable {PASSWORD}")
        return found


def parse_address(text: str, user: str | None = None) -> Address:
    """An address as a person gives it: https://host/sparql, or bolt://host:7687 and neo4j://host for Neo4j.

    Raises:
        TuckerkgError: it is none, or holds a password.
    """
    try:
        parts = urlsplit(text)
        known = bool(parts.hostname) and (parts.scheme in ("http", "https", *BOLT))
    except ValueError:
        known = False
    if not known:
        raise TuckerkgError(
            f"{printable(text)}: is no address of a store. Expected https://host/sparql for a SPARQL endpoint, "
            "bolt://host:7687 or neo4j://host for Neo4j; a file is read by the other verbs directly"
        )
    if parts.username is not None or parts.password is not None:
        raise TuckerkgError(f"an address holds no user: give --user NAME, and the password in {PASSWORD}")
    return Address(text, "neo4j" if parts.scheme in BOLT else "sparql", user)
