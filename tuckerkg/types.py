"""Types that several packages share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

Init = Literal["xavier", "silent", "identity"]
"""How an encoder's layers are initialized: at random; at random with message weights 0; or so that entities pass
unchanged, which suits embeddings that were trained before."""

Precision = Literal["float32", "bfloat16"]

Readout = Literal["sum", "mean", "attention"]
"""How the vectors of a graph's nodes become one."""

Counted = Literal["none", "sums", "tf-idf"]
"""Whether things around an item are counted: as they are, or rare ones for more and all items as equally large."""

Basis = Literal["tail", "head", "both"]
"""The question, or questions, that a fact's probability comes from: (head, relation, ?), (?, relation, tail)."""

Verdict = Literal["yes", "no", "unsure"]
"""Whether a fact is true."""

JsonObject = dict[str, Any]
"""Names and values that JSON can hold."""

ProgressFunction = Callable[[int, int], None]
"""``progress(done, total)``, called now and then by whatever takes long."""

LogFunction = Callable[[str], None]
"""Called with a sentence for the user."""


def ignore(text: str) -> None:
    """Log nothing."""
