"""Bodies of requests."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from tuckerkg.data.readers.long_labels import LONGEST_LABEL

MOST_ANSWERS = 1_000
MOST_QUESTIONS = 256
MOST_DECISIONS = 1_000
LONGEST_NOTE = 1_000

Choice = Literal["accept", "reject", "defer"]
Place = Literal["head", "tail"]


def plain(text: str) -> str:
    """Refuse what no label holds."""
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("a name holds no NUL and no lone surrogate")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_LABEL), AfterValidator(plain)]
Person = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True), AfterValidator(plain)]
Count = Annotated[int, Field(strict=True, ge=1, le=MOST_ANSWERS)]
Flag = Annotated[bool, Field(strict=True)]


class Body(BaseModel):
    """A body whose fields are all known."""

    model_config = ConfigDict(extra="forbid")


class Asked(Body):
    """A question: two of head, relation and tail, or one of head and tail alone."""

    head: Name | None = None
    relation: Name | None = None
    tail: Name | None = None
    k: Count = 10
    known: Flag = False
    typed: Flag = True
    joined: Flag = True
    """Whether probabilities come from both questions of a fact, so that each has one everywhere; false is quicker."""

    @model_validator(mode="after")
    def _leaves_something_open(self) -> Asked:
        if None not in (self.head, self.relation, self.tail) or (self.head is None and self.tail is None):
            raise ValueError("give head and relation, relation and tail, head and tail, or one of head and tail")
        return self


class AskedBatch(Body):
    """Many questions at once."""

    questions: Annotated[list[Asked], Field(min_length=1, max_length=MOST_QUESTIONS)]


class Triple(Body):
    """A fact by its names or labels."""

    head: Name
    relation: Name
    tail: Name


class AskedFacts(Body):
    """Facts to weigh."""

    facts: Annotated[list[Triple], Field(min_length=1, max_length=MOST_QUESTIONS)]


class AskedWhy(Triple):
    """A fact to explain."""

    k: Annotated[int, Field(strict=True, ge=1, le=20)] = 5


class Decided(Triple):
    """A fact, and what is decided about it."""

    choice: Choice
    note: Annotated[str, StringConstraints(max_length=LONGEST_NOTE), AfterValidator(plain)] = ""


class DecidedFacts(Body):
    """Decisions; ``by`` names who makes them, where no token does."""

    decisions: Annotated[list[Decided], Field(min_length=1, max_length=MOST_DECISIONS)]
    by: Person | None = None


class AskedUndo(Body):
    """How many of one's own last decisions to take back."""

    count: Annotated[int, Field(strict=True, ge=1, le=MOST_DECISIONS)] = 1
    by: Person | None = None


class AskedAdd(Body):
    """Nothing: all accepted facts are added."""


class AskedJob(Body):
    """Work to be done in the background.

    ``missing`` looks for missing facts in the whole graph, or of one ``relation``; ``report`` writes a page about a
    run; ``add`` puts the accepted facts into the graph; ``train`` makes a run of an upload, called ``name``.
    """

    kind: Literal["missing", "train", "report", "add"]
    run: Name | None = None
    relation: Name | None = None
    upload: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")] | None = None
    minutes: Annotated[float, Field(gt=0, le=1_440, allow_inf_nan=False)] | None = None
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> AskedJob:
        if self.kind == "train" and (self.upload is None or self.name is None):
            raise ValueError("train needs an upload and a name for the new run")
        if self.kind != "train" and (self.upload, self.minutes, self.name) != (None, None, None):
            raise ValueError("upload, minutes and name are for train")
        if self.kind != "missing" and self.relation is not None:
            raise ValueError("relation is for missing")
        return self
