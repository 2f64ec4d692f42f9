"""The page in a real browser: the whole journey, hostile labels as text, keyboard, a narrow window."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from graphs import toy_dataset
from services import running

from tuckerkg import api
from tuckerkg.config.toml import load_settings
from tuckerkg.data import load as datasets
from tuckerkg.training.callbacks import NullCallback

pytestmark = pytest.mark.browser

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = {
    "e000": "<script>window.hurt = 1</script>",
    "e001": '<img src="/nowhere" onerror="window.hurt = 1">',
    "e002": "turned \u202e round",
    "e003": "long " * 800,
    "e004": "{{7*7}} %s ${window.hurt=1}",
}


@pytest.fixture(scope="module")
def browser():
    from playwright import sync_api

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_api.sync_playwright() as started:
        found = started.chromium.launch(executable_path=chromium, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def countries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "countries"
    settings = load_settings("countries-tgcn-tucker", {"train.epochs": 12.0, "train.threads": 1})
    api.resume(api.prepare(datasets.load("countries"), settings, folder), NullCallback())
    subprocess.run([sys.executable, "-m", "tuckerkg", "evaluate", str(folder)], check=True, capture_output=True)
    with running(folder) as service:
        yield service


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    data = replace(toy_dataset(), entity_titles=HOSTILE)
    changes = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 4.0, "train.threads": 1}
    run = api.train(data, out=tmp_path_factory.mktemp("hostile") / "run", overrides=changes, callback=NullCallback())
    with running(run.path) as service:
        yield service


@pytest.fixture
def opened(browser):
    """Opens pages that fail the test by a console error, an exception or a request to anywhere else."""
    contexts, wrong = [], []

    def open_page(service, where="", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: message.type == "error" and wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: request.url.startswith(service.address) or wrong.append(request.url))
        page.goto(f"{service.address}/{where}")
        page.wait_for_selector("main:not([aria-busy]) h1")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def settled(page):
    page.wait_for_selector("main:not([aria-busy])")


def keep(page, name):
    """A screenshot, where a folder for them is named."""
    if "TUCKERKG_SCREENSHOTS" in os.environ:
        page.screenshot(path=Path(os.environ["TUCKERKG_SCREENSHOTS"]) / f"{name}.png")


def test_from_a_search_to_an_explanation(opened, countries):
    page = opened(countries, viewport={"width": 1000, "height": 720})
    page.wait_for_selector(".answers li")  # the whole graph has been searched
    assert page.locator("svg").count() == 2
    assert "test mrr" in page.locator("main").inner_text()
    keep(page, "home")
    page.fill("#query", "switzer")
    page.wait_for_selector("#matches li[role=option]")
    page.keyboard.press("ArrowDown")
    assert page.locator("#matches li").first.get_attribute("aria-selected") == "true"
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text-is('Switzerland')")
    assert page.get_by_text("borders").count() > 2
    assert page.locator("figure svg a").count() > 5  # its neighbours, each a link
    keep(page, "entity")
    page.get_by_role("link", name="Switzerland borders ?").click()
    page.wait_for_selector("h1:text-is('Switzerland borders ?')")
    assert 0 < page.locator(".answers li").count() <= 25
    assert page.locator(".answers .known").count() == 0
    page.get_by_label("known facts too").check()
    settled(page)
    page.wait_for_selector(".answers .known")
    bars = page.locator(".answers .bar span").evaluate_all("all => all.map(one => one.style.width)")
    assert all(re.fullmatch(r"[\d.e-]+%", width) for width in bars)
    keep(page, "answers")
    page.locator(".answers a").first.click()
    page.wait_for_selector("figure svg rect")
    text = page.locator("main").inner_text()
    assert "Edges that carried it" in text
    assert re.search(r"rank (stays|\d+ becomes)", text)
    assert "such paths end at a true" in text
    keep(page, "why")
    shared = page.url
    page.go_back()
    page.wait_for_selector("h1:text-is('Switzerland borders ?')")
    assert page.locator(".answers .known").count() > 0
    again = opened(countries, "#" + shared.partition("#")[2])
    assert again.locator("figure svg rect").count() > 1


def test_s8_b69_hostile_labels_are_text(opened, hostile):
    for label, title in HOSTILE.items():
        page = opened(hostile, f"#/entity/{label}")
        heading = page.locator("h1").inner_text()
        assert heading.startswith(title[:20].replace("\u202e", "\\u202e").strip())
        assert len(heading) <= 300
        assert page.locator("main img").count() == 0
        assert page.evaluate("window.hurt") is None
    page = opened(hostile, "#/why/e000/plus1/e001")
    assert page.locator("figure svg rect").count() > 1
    assert page.evaluate("window.hurt") is None
    page.fill("#query", "script")
    page.wait_for_selector("#matches li[role=option]")
    assert "<script>" in page.locator("#matches li").first.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_narrow_dark_window_with_the_keyboard_alone(opened, countries):
    page = opened(countries, "#/entity/France", viewport={"width": 360, "height": 640}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in re.findall(r"\d+", paper)[:3]) < 150
    keep(page, "phone")
    page.locator("#query").focus()
    page.keyboard.type("spain")
    page.wait_for_selector("#matches li[role=option]")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text-is('Spain')")
    page.wait_for_selector("main:focus")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "A"
    page.keyboard.press("Enter")
    page.wait_for_selector(".answers, main p")
    assert "Spain" in page.locator("h1").inner_text()


def test_what_is_not_there_and_what_fails_is_said(opened, browser, countries):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{countries.address}/#/entity/Atlantis")
    page.wait_for_selector("h1:text-is('Not found')")
    assert "no entity 'Atlantis'" in page.locator("main").inner_text()
    assert page.locator("#status").get_attribute("role") == "status"
    page.goto(f"{countries.address}/#/nonsense")
    page.wait_for_selector("text=There is no such page here.")
    page.fill("#query", "qqqqqq")
    page.wait_for_selector("text=No entity has that in its name.")
    page.route("**/api/facts*", lambda route: route.abort())
    page.goto(f"{countries.address}/#/entity/France")
    page.wait_for_selector("h1:text-is('That did not work')")
    page.unroute("**/api/facts*")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("h1:text-is('France')")
    context.close()


def test_everything_has_a_name_for_a_screen_reader(opened, countries):
    page = opened(countries, "#/ask/France/borders/head/known/typed")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('a, button, input, svg[role=img], [role=img]')]
            .filter((one) => !(one.getAttribute('aria-label') || one.textContent.trim()
                || (one.labels && one.labels.length) || one.title))
            .map((one) => one.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.lang") == "en"
