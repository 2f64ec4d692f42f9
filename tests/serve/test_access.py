"""Who may ask for what: tokens with names and roles, from a file that may change."""

from __future__ import annotations

import hashlib
import os
import shutil

import pytest
from services import running

from tuckerkg.errors import TuckerkgError
from tuckerkg.serve.access import Access, Caller
from tuckerkg.serve.client import Client, ServiceError
from tuckerkg.serve.problems import Refused

ALICE, BOB, CAROL = "a" * 20, "b" * 20, "c" * 20


def table(name: str, token: str, *roles: str) -> str:
    return f'[[token]]\nname = "{name}"\nroles = {list(roles)!r}\ntoken = "{token}"\n'


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "tokens.toml"
    found.write_text(table("alice", ALICE, "read", "decide") + table("bob", BOB, "read"))
    return found


def test_a_token_has_a_name_and_roles(file):
    access = Access(file=file)
    assert access.caller(ALICE, "10.0.0.1") == Caller("alice", "alice", ("read", "decide"))
    assert access.caller(BOB, "10.0.0.1") == Caller("bob", "bob", ("read",))
    assert access.caller("x" * 20, "10.0.0.1") is None
    assert access.caller(None, "10.0.0.1") is None
    with pytest.raises(Refused, match="role 'decide'"):
        access.caller(BOB, "-").need("decide")


def test_without_tokens_everyone_reads_and_decides_and_trains_where_that_is_allowed():
    assert Access().caller(None, "127.0.0.1") == Caller("127.0.0.1", None, ("read", "decide"))
    assert "train" in Access(training=True).caller(None, "127.0.0.1").roles
    assert Access(token="t" * 20).caller(None, "127.0.0.1") is None


def test_a_file_that_changes_is_read_again_and_one_that_is_damaged_is_not(file):
    access = Access(file=file)
    file.write_text(table("alice", CAROL, "read") + table("alice", ALICE, "read"))  # two at a time
    os.utime(file, ns=(1, 1))
    assert access.caller(CAROL, "-").name == access.caller(ALICE, "-").name == "alice"
    assert access.caller(BOB, "-") is None
    file.write_text("[[token]")
    os.utime(file, ns=(2, 2))
    assert access.caller(CAROL, "-").name == "alice"


def test_a_file_may_hold_digests_alone(tmp_path):
    file = tmp_path / "tokens.toml"
    digest = hashlib.sha256(ALICE.encode()).hexdigest()
    file.write_text(f'[[token]]\nname = "alice"\nroles = ["train"]\nsha256 = "{digest}"\n')
    assert Access(file=file).caller(ALICE, "-").roles == ("read", "train")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"holds no \[\[token\]\]"),
        ("[[token]", "is not TOML"),
        (table("a", "short", "read"), "fewer than 16"),
        (table("a", ALICE, "rule"), "expected some of read, decide, train"),
        (table("", ALICE, "read"), "needs a name"),
        ('[[token]]\nname = "a"\nroles = ["read"]\n', "needs token or sha256"),
        ('[[token]]\nname = "a"\nsha256 = "12"\n', "64 hexadecimal digits"),
        (table("a", ALICE, "read") + "colour = 1\n", "'colour' is unknown"),
        (table("a", ALICE, "read") * 3, "two are enough"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path, text, said):
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(TuckerkgError, match=said):
        Access(file=file)


def test_roles_are_kept_over_http(served_run, tmp_path, file):
    place = tmp_path / "run"
    shutil.copytree(served_run.path, place)
    fact = [("e000", "plus1", "e005")]
    with running(place, "--token-file", str(file)) as found:
        alice, bob = Client(found.address, ALICE), Client(found.address, BOB)
        assert (alice.runs()["who"], alice.runs()["roles"], alice.runs()["may_name"]) == (
            "alice",
            ["read", "decide"],
            False,
        )
        assert alice.decide(fact, "accept")["decisions"][0]["by"] == "alice"
        for asked in (
            lambda: bob.decide(fact, "reject"),
            lambda: alice.start("train", upload="0" * 16, name="x"),
            lambda: alice.decide(fact, "reject", by="bob"),
        ):
            with pytest.raises(ServiceError) as refused:
                asked()
            assert refused.value.status == 403
        assert bob.decisions()["counts"] == {"accept": 1, "reject": 0, "defer": 0}
        status, _, headers = found.ask("GET", "/api/v1/runs")
        assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="tuckerkg"')
