"""Deciding in the browser: by keyboard, in bulk, two people at once, into the graph without a restart."""

from __future__ import annotations

import json
import shutil

import pytest
from browsing import keep, listed, shown
from services import running

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def review_run(countries_run, tmp_path_factory):
    return shutil.copytree(countries_run, tmp_path_factory.mktemp("review") / "countries")


@pytest.fixture(scope="module")
def reviewed(review_run):
    with running(review_run) as service:
        yield service


def decisions(run):
    path = run / "decisions.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def test_the_journey_from_start_to_a_new_version(windows, countries_run, tmp_path):
    run = shutil.copytree(countries_run, tmp_path / "countries")
    with running(run) as service:
        other = windows.open(service, "#/relations", name="Bob")
        page = windows.open(service, name=None)
        page.wait_for_selector(".proof .tick.yes")
        listed(page)
        page.get_by_role("link", name="Review one by one").first.click()
        page.wait_for_selector("h1:text-is('Review')")
        page.get_by_label("Probability at least").fill("0.05")
        page.wait_for_url("**at_least=0.05**")
        page.wait_for_function("() => document.querySelectorAll('.open-list li.link').length > 12")
        page.wait_for_selector("li.link.here")
        page.keyboard.press("a")
        page.wait_for_selector("dialog[open]")  # who decides, once
        page.fill("#who", "Ann")
        page.keyboard.press("Enter")
        page.wait_for_selector("li.link.is-accept")
        for place, key in enumerate("arauadraa", start=2):
            page.keyboard.press(key)
            page.wait_for_function(f"() => document.querySelectorAll('li[class*=is-]').length === {place}")
        page.wait_for_selector("text=/^10 of \\d+ done/")
        assert len(decisions(run)) == 10
        assert {row["by"] for row in decisions(run)} == {"Ann"}
        keep(page, "review")
        page.keyboard.press("z")
        page.wait_for_function("() => document.querySelectorAll('li[class*=is-]').length === 9")
        page.wait_for_selector("text=/^9 of \\d+ done/")
        with page.expect_download() as kept:
            page.get_by_role("button", name="N-Triples").click()
        assert kept.value.path().read_text(encoding="utf-8").count(" .\n") > 0
        page.get_by_role("button", name="Add accepted to the graph").click()
        page.wait_for_selector("text=version 2 is served now", timeout=60_000)
        assert "v2" in page.locator("#run").inner_text()
        assert "v1" in other.locator("#run").inner_text()
        other.get_by_role("link", name="Model", exact=True).click()
        other.wait_for_selector("#run:has-text('v2')")  # an answer of the new version tells the header
        page.get_by_role("link", name="What changed").click()
        page.wait_for_selector("h1:has-text('version 1 to 2')")
        assert page.locator("ul.facts li").count() == 5
        page.get_by_role("link", name="Start", exact=True).click()
        page.wait_for_selector(".hero h1")
        assert "v2" in page.locator("#run").inner_text()


def test_a_bulk_decision_and_the_list_of_what_was_decided(windows, reviewed, review_run):
    page = windows.open(reviewed, "#/review?at_least=0.02", name="Bob")
    listed(page)
    for _ in range(3):
        page.keyboard.press(" ")
        page.keyboard.press("j")
    page.keyboard.press("x")
    page.wait_for_selector("dialog[open]:has-text('3 links at once')")
    page.keyboard.press("r")
    page.wait_for_function("() => document.querySelectorAll('li.is-reject').length === 3")
    assert [row["choice"] for row in decisions(review_run)].count("reject") == 3
    page.goto(f"{reviewed.address}/#/review?decision=reject")
    page.wait_for_selector("li.link.is-reject")
    assert "rejected by Bob" in page.locator("li.link").first.inner_text()
    page.locator(".note button:has-text('Undo')").click()
    page.wait_for_selector("text=taken back: 3 decisions")


def test_two_people_at_once_lose_no_decision_and_see_each_other(windows, reviewed, review_run):
    before = len(decisions(review_run))
    ann, bob = (windows.open(reviewed, "#/review?at_least=0.02", name=name) for name in ("Ann", "Bob"))
    for page in (ann, bob):
        listed(page)
        page.wait_for_selector("li.link.here")
    first = ann.locator("li.link").first.locator(".fact .name").all_inner_texts()
    ann.keyboard.press("a")
    bob.keyboard.press("j")
    bob.keyboard.press("r")
    for page in (ann, bob):
        page.wait_for_selector("li.link.is-accept")
        page.wait_for_selector("li.link.is-reject")
    assert "by Ann" in bob.locator("li.link.is-accept").inner_text()
    made = decisions(review_run)[before:]
    assert {(row["by"], row["choice"]) for row in made} == {("Ann", "accept"), ("Bob", "reject")}
    bob.keyboard.press("k")
    bob.keyboard.press("k")
    bob.keyboard.press("r")  # the same link, decided otherwise: both stay in the file, the later one counts
    bob.wait_for_function("() => document.querySelectorAll('li.is-reject').length === 2")
    assert bob.locator("li.link").first.locator(".fact .name").all_inner_texts() == first
    assert len(decisions(review_run)) == before + 3


def test_enter_opens_why_and_back_finds_the_same_row(windows, reviewed):
    page = windows.open(reviewed, "#/review?at_least=0.02")
    listed(page)
    page.wait_for_selector("li.link.here")
    for _ in range(4):
        page.keyboard.press("j")
    here = page.locator("li.link.here .fact").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector("svg.why-picture")
    page.go_back()
    listed(page)
    page.wait_for_selector("li.link.here")
    assert page.locator("li.link.here .fact").inner_text() == here


def test_one_by_one_shows_one(windows, reviewed):
    page = windows.open(reviewed, "#/review?one=yes&at_least=0.02")
    listed(page)
    page.wait_for_selector("li.link.here")
    assert page.locator("li.link:visible").count() == 1
    seen = page.locator("li.link:visible").inner_text()
    page.keyboard.press("d")
    page.wait_for_function("(text) => document.querySelector('li.link.here').innerText !== text", arg=seen)
    page.keyboard.press("z")
    shown(page)


def test_a_reader_cannot_decide(windows, countries_run, tmp_path):
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(
        '[[token]]\nname = "reader"\ntoken = "only-to-read-0123456789"\nroles = ["read"]\n', encoding="utf-8"
    )
    with running(countries_run, "--token-file", str(tokens), wait=False) as service:
        from services import wait_until_ready

        wait_until_ready(service)
        page = windows.open(service, quiet=True)
        page.wait_for_selector("h1:text-is('A token is needed')")
        page.get_by_label("Token").fill("wrong-wrong-wrong-wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=is not one of them")
        page.get_by_label("Token").fill("only-to-read-0123456789")
        page.keyboard.press("Enter")
        listed(page)
        assert page.locator(".marks").count() == 0
