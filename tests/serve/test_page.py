"""The views of the page in a real browser, read from one service: what they show, where they lead, who can use them."""

from __future__ import annotations

import re

import pytest
from browsing import PHONE, fits, keep, listed, shown
from services import running

pytestmark = pytest.mark.browser

VIEWS = {
    "start": "",
    "review": "#/review",
    "canvas": "#/graph/France",
    "entity": "#/entity/France",
    "answers": "#/ask/France/borders/head?known=yes",
    "why": "#/why/France/borders/Germany",
    "relations": "#/relations",
    "relation": "#/relation/borders",
    "runs": "#/runs",
    "model": "#/model",
    "map": "#/map?q=ger",
    "lately": "#/lately",
    "changes": "#/changes",
}


def test_the_start_shows_proof_then_the_open_list_above_the_threshold(windows, countries):
    page = windows.open(countries)
    listed(page)
    page.wait_for_selector(".proof .tick.yes")
    proof = page.locator(".proof").inner_text()
    assert re.search(r"facts were hidden from the model", proof)
    assert re.search(r"it had said \d+ %", proof)
    threshold = page.evaluate("fetch('/api/v1/run').then((a) => a.json()).then((run) => run.threshold)")
    chances = page.locator(".open-list .percent").all_inner_texts()
    said = [0 if "<" in text else 100 if ">" in text else int(text.split()[0]) for text in chances]
    assert min(said) >= round(100 * threshold) - 1
    assert said == sorted(said, reverse=True)
    keep(page, "start")
    page.get_by_label("Relation", exact=True).select_option("borders")
    page.wait_for_url("**relation=borders**")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.open-list .relation')].every((one) => one.textContent === 'borders')"
        " && document.querySelector('.open-list li.link, .open-list .empty')"
    )


def test_nothing_over_the_threshold_is_said_in_words(windows, countries):
    page = windows.open(countries, "#/review?relation=has%20the%20capital&at_least=1")
    page.wait_for_selector("text=Nothing to see here.")
    assert "1 %" not in page.locator(".open-list").inner_text().replace("99 %", "")


def test_search_finds_near_names_and_whole_questions_and_closes(windows, countries):
    page = windows.open(countries)
    page.keyboard.press("/")
    page.keyboard.type("sao tom")
    page.wait_for_selector("#matches li[role=option]:has-text('Sao Tome')")
    page.fill("#query", "germny")
    page.wait_for_selector("#matches li[role=option]:has-text('Germany')")
    page.fill("#query", "France borders")
    page.wait_for_selector("#matches li.ask:has-text('France borders ?')")
    page.keyboard.press("ArrowDown")
    assert page.locator("#matches li[role=option]").first.get_attribute("aria-selected") == "true"
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text-is('France borders ?')")
    assert page.locator("#matches").is_hidden()
    page.fill("#query", "spain")
    page.wait_for_selector("#matches li[role=option]")
    page.go_back()
    page.wait_for_selector(".hero h1")
    assert page.locator("#matches").is_hidden()


def test_namesakes_are_told_apart(windows, countries):
    page = windows.open(countries)
    page.fill("#query", "luxembourg")
    page.wait_for_selector("#matches li[role=option]")
    words = page.locator("#matches li.entity").all_inner_texts()
    assert len(words) == len(set(words)) > 1


def test_an_entity_is_a_panel(windows, countries):
    page = windows.open(countries, "#/entity/Switzerland")
    page.wait_for_selector(".groups tr:not([hidden]) .names a")
    page.wait_for_selector(".chips li a")
    assert "Switzerland" in page.locator("h1").inner_text()
    assert page.locator(".groups").inner_text().count("borders") == 2
    page.wait_for_selector(".beside ol li a")
    page.wait_for_selector(".guessed .percent, .predicted .soft:text-is('–')")
    keep(page, "entity")
    page.locator(".chips li a").first.click()
    page.wait_for_selector("h1:has-text('?')")


def test_answers_say_what_is_known_and_what_makes_no_sense(windows, countries):
    page = windows.open(countries, "#/ask/Switzerland/borders/head")
    assert page.locator(".badge.is-known").count() == 0
    page.get_by_label("known facts too").check()
    page.wait_for_selector(".badge.is-known")
    assert "A known fact can stand below a new one" in page.locator("main").inner_text()
    keep(page, "answers")
    page.goto(f"{countries.address}/#/ask/Paris/borders/head")
    page.wait_for_selector("h1:text-is('Paris borders ?')")
    assert "nothing of its type is asked" in page.locator(".empty").inner_text()
    assert page.locator("li.link").count() == 0
    page.goto(f"{countries.address}/#/ask/France/has%20the%20capital/head?all=yes")
    page.wait_for_selector(".badge.is-taken")


def test_why_shows_paths_and_a_picture_whose_labels_lie_on_their_own_lines(windows, countries):
    page = windows.open(countries, "#/why/France/borders/Germany")
    page.wait_for_selector("svg.why-picture")
    text = page.locator("main").inner_text()
    assert "What is left without an edge" in text
    assert re.search(r"(stays at|falls from|rises from) place \d+", text)
    keep(page, "why")
    assert page.evaluate(LABELS_ON_FOREIGN_LINES) == []
    page.locator("svg.why-picture a.box").first.click()
    shown(page)
    assert "#/entity/" in page.url


LABELS_ON_FOREIGN_LINES = """() => {
  const lines = [...document.querySelectorAll('svg.why-picture a.line')].map((one) => one.querySelector('.stroke'));
  const labels = [...document.querySelectorAll('svg.why-picture .line-label')];
  const found = [];
  for (const label of labels) {
    const box = label.querySelector('rect').getBBox();
    const holds = (p) => p.x > box.x && p.x < box.x + box.width && p.y > box.y && p.y < box.y + box.height;
    let hit = 0;
    for (const line of lines) {
      const long = line.getTotalLength();
      for (let at = 0; at <= long; at += 1) if (holds(line.getPointAtLength(at))) { hit++; break; }
    }
    if (hit !== 1) found.push([label.textContent, hit]);
  }
  return found;
}"""


def test_an_entity_and_its_namesake_are_two_boxes(windows, countries):
    page = windows.open(countries, "#/entity/Luxembourg")
    page.wait_for_selector(".groups tr:has-text('has the capital') .names a")
    page.locator(".groups tr:has-text('has the capital') .names .why").first.click()
    page.wait_for_selector("svg.why-picture")
    boxes = page.locator("svg.why-picture a.box.end text").all_text_contents()
    assert boxes == ["Luxembourg", "Luxembourg"]
    assert page.locator("svg.why-picture a.line.asked").count() == 1


def test_one_link_has_one_probability(windows, countries):
    page = windows.open(countries, "#/ask/Switzerland/borders/head")
    page.wait_for_selector("li.link")
    said = page.locator("li.link .percent").first.inner_text()
    page.locator("li.link a.why").first.click()
    page.wait_for_selector(".verdict .percent")
    assert page.locator(".verdict .percent").inner_text() == said


def test_relations_lead_to_a_page_each(windows, countries):
    page = windows.open(countries, "#/relations")
    page.get_by_role("link", name="borders", exact=True).click()
    page.wait_for_selector("h1:text-is('borders')")
    assert "many to many" in page.locator("main").inner_text()
    assert page.locator("ul.facts li").count() > 2


def test_the_curve_of_training_begins_at_zero(windows, countries):
    page = windows.open(countries, "#/model")
    page.wait_for_selector("svg.chart")
    labels = page.locator("svg.chart").first.locator("text.label").all_text_contents()
    assert "0.00" in labels or "0.000" in labels
    assert "MRR" in page.locator("main").inner_text()


def test_a_map_shows_entities_and_lights_up_what_is_searched(windows, countries):
    page = windows.open(countries, "#/map")
    page.wait_for_selector(".entity-map circle")
    about = page.evaluate("fetch('/api/v1/run').then((a) => a.json()).then((run) => run.counts.entities)")
    assert page.locator(".entity-map circle").count() == min(about, 1_000)
    assert page.locator(".entity-map circle.lit").count() == 0
    page.get_by_label("Light up").fill("german")
    page.keyboard.press("Enter")
    page.wait_for_selector(".entity-map text.lit-name:has-text('Germany')")
    page.goto(f"{countries.address}/#/entity/France")
    page.get_by_role("link", name="On the map").click()
    page.wait_for_selector(".entity-map text.lit-name:has-text('France')")
    assert page.locator(".entity-map circle.lit").count() == 1
    before = page.locator(".entity-map").get_attribute("viewBox")
    page.get_by_role("button", name="Zoom in").click()
    assert page.locator(".entity-map").get_attribute("viewBox") != before
    keep(page, "map")
    page.locator(".entity-map a:has(circle.lit)").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text-is('France')")


def test_two_runs_are_asked_the_same_question(windows, countries_run, served_run):
    with running(countries_run, f"{countries_run}@1", str(served_run.path)) as service:
        page = windows.open(service, quiet=True)
        page.wait_for_function("() => !document.getElementById('run').textContent.includes('loading')")
        page.goto(f"{service.address}/#/compare/France/borders/head")
        page.wait_for_selector(".answers-beside li")
        rows = page.locator(".answers-beside li").all_inner_texts()
        assert len(rows) == 30
        assert all("same place" in row for row in rows)
        page.get_by_label("Right").select_option("run")
        page.wait_for_selector("text=there is no entity 'France'")
        assert page.locator(".answers-beside li").count() == 15
        assert "only here" not in page.locator(".beside-runs").inner_text()


def test_views_are_kept_and_remembered_by_this_browser_until_they_are_forgotten(windows, countries):
    page = windows.open(countries, "#/entity/France", quiet=True)  # a name that nobody has is asked for
    page.get_by_role("button", name="Keep this view").click()
    page.wait_for_selector("#foot button:has-text('Kept')")
    page.goto(f"{countries.address}/#/entity/Spain")
    page.wait_for_selector("h1:text-is('Spain')")
    page.goto(f"{countries.address}/#/entity/Nowhere")
    page.wait_for_selector("text=To the start")
    page.get_by_role("link", name="Kept and lately").click()
    page.wait_for_selector("h2:text-is('Seen lately')")
    kept, seen = (page.locator("main ul.facts").nth(place).locator("a").all_inner_texts() for place in (0, 1))
    assert (kept, seen) == (["France"], ["Spain", "France"])
    assert fits(page)
    page.get_by_role("button", name="Forget what was seen").click()
    page.wait_for_selector("main:has-text('Nothing yet.')")
    page.get_by_role("button", name="No longer keep France").click()
    page.wait_for_function("() => !document.querySelector('main ul.facts')")
    page.goto(f"{countries.address}/#/entity/France")
    page.wait_for_selector("#foot button:has-text('Keep this view')")


def test_back_leads_to_the_place_that_was_left(windows, countries):
    page = windows.open(countries, "#/?at_least=0")
    listed(page)
    page.get_by_role("button", name="More").last.click()
    page.wait_for_function("() => document.querySelectorAll('.open-list li.link').length > 25")
    page.evaluate("window.scrollTo(0, 1700)")
    page.wait_for_timeout(100)
    page.locator(".open-list li.link a.why").nth(30).evaluate("(one) => one.click()")
    page.wait_for_selector("h1:has(a)")
    assert page.evaluate("window.scrollY") == 0
    page.go_back()
    listed(page)
    page.wait_for_function("() => Math.abs(window.scrollY - 1700) < 3")
    assert page.locator(".open-list li.link").count() > 25


def test_views_are_copied_as_requests_that_work(windows, countries):
    page = windows.open(countries, "#/ask/France/borders/head", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="curl").click()
    page.wait_for_selector("text=Copied as curl.")
    words = page.evaluate("navigator.clipboard.readText()")
    assert words.startswith("curl 'http://")
    assert "/api/v1/predict" in words
    page.get_by_role("button", name="Python").click()
    page.wait_for_selector("text=Copied as Python.")
    compile(page.evaluate("navigator.clipboard.readText()"), "copied.py", "exec")
    with page.expect_download() as kept:
        page.get_by_role("button", name="CSV").click()
    assert "head" in kept.value.path().read_text(encoding="utf-8").splitlines()[0]


def test_errors_are_said_once_with_near_names_and_a_way_home(windows, countries):
    page = windows.open(countries, "#/entity/Grmany", quiet=True)
    assert page.locator("h1").inner_text() == "Not found"
    assert page.locator("main").inner_text().count("Grmany") == 1
    assert page.get_by_role("button", name="Try again").count() == 0
    page.get_by_role("link", name="Germany", exact=True).click()
    page.wait_for_selector("h1:text-is('Germany')")
    page.goto(f"{countries.address}/#/nonsense")
    page.wait_for_selector("text=There is no such page here.")
    page.get_by_role("link", name="To the start").click()
    page.wait_for_selector(".hero h1")
    page.route("**/api/v1/entity?*", lambda route: route.abort())
    page.goto(f"{countries.address}/#/entity/France")
    page.wait_for_selector("text=The service does not answer.")
    page.unroute("**/api/v1/entity?*")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("h1:text-is('France')")


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_fits_a_phone_and_has_names_for_a_screen_reader(windows, countries, name):
    page = windows.open(countries, VIEWS[name], viewport=PHONE, color_scheme="dark", has_touch=True)
    page.wait_for_function("() => !document.querySelector('.progress:not([hidden])')")
    assert fits(page)
    paper = page.evaluate("getComputedStyle(document.body).color")
    assert sum(int(part) for part in re.findall(r"\d+", paper)[:3]) > 450
    assert page.evaluate(NAMELESS) == []
    assert page.locator("h1").count() == 1
    assert page.evaluate(SMALL_TARGETS) == []
    keep(page, f"phone-{name}")


NAMELESS = """() => [...document.querySelectorAll('a, button, input, select, textarea, svg[role=img], [role=img]')]
    .filter((one) => !(one.getAttribute('aria-label') || one.textContent.trim()
        || (one.labels && one.labels.length) || one.title || one.querySelector('title')))
    .map((one) => one.outerHTML)"""

# Buttons and fields: links within text are exempt from the 24 pixels.
SMALL_TARGETS = """() => [...document.querySelectorAll(
        'main button, main select, main input, main a.button, main a.why, nav a')]
    .filter((one) => one.offsetParent !== null)
    .map((one) => [one.outerHTML.slice(0, 80), one.closest('label') ?? one])
    .filter(([, one]) => { const { height, width } = one.getBoundingClientRect(); return height < 24 || width < 24; })
    .map(([words]) => words)"""


def test_the_page_of_the_api_reads_the_services_own_document(windows, countries):
    page = windows.open(countries, "api", name=None)
    page.wait_for_selector("details.route")
    page.locator("details.route", has_text="/api/v1/predict").first.locator("summary").click()
    assert "curl -X POST" in page.locator("details.route[open] pre").first.inner_text()
    assert fits(page)


def test_keys_are_listed(windows, countries):
    page = windows.open(countries, "#/review")
    listed(page)
    page.keyboard.press("?")
    page.wait_for_selector("dialog.keys")
    assert "accept" in page.locator("dialog.keys").inner_text()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.keys", state="detached")


def test_it_prints_without_what_cannot_be_pressed_on_paper(windows, countries):
    page = windows.open(countries, "#/ask/France/borders/head")
    page.emulate_media(media="print")
    assert page.locator("header.top").is_hidden()
    assert page.locator("h1").is_visible()
    assert page.locator(".marks").first.is_hidden()
