"""The canvas in a browser: explored, filtered, decided on, saved, and found again as it was left."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree

import pytest
from browsing import keep
from services import running

pytestmark = pytest.mark.browser
COUNT = "document.querySelector('.canvas').canvas.%s.length"

VISIBLE = "edges(':visible')"


@pytest.fixture(scope="module")
def service(countries_run, tmp_path_factory):
    run = shutil.copytree(countries_run, tmp_path_factory.mktemp("canvas") / "countries")
    with running(run) as found:
        yield found


def drawn(page):
    page.wait_for_function(
        "() => document.querySelector('.canvas')?.canvas?.nodes().length > 3"
        " && !!document.querySelector('ul.relations li')"
    )


def count(page, what):
    return page.evaluate(COUNT % what)


def node_at(page, name):
    """Where an entity is on the screen."""
    where = page.evaluate(
        "(id) => document.querySelector('.canvas').canvas.getElementById(id).renderedPosition()", name
    )
    box = page.locator(".canvas").bounding_box()
    return box["x"] + where["x"], box["y"] + where["y"]


def test_a_double_click_expands_and_a_drag_moves(windows, service):
    page = windows.open(service, "#/graph/France")
    drawn(page)
    before = count(page, "nodes()")
    keep(page, "canvas")
    page.mouse.dblclick(*node_at(page, "Switzerland"))
    page.wait_for_function(f"() => {COUNT % 'nodes()'} > {before}")
    keep(page, "canvas-expanded")
    page.wait_for_timeout(400)  # the movement into sight
    x, y = node_at(page, "Spain")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y + 40, steps=5)
    page.mouse.up()
    assert node_at(page, "Spain") == pytest.approx((x + 60, y + 40), abs=3)


NAMES = """() => {
    const { canvas } = document.querySelector('.canvas'), zoom = canvas.zoom();
    const named = canvas.nodes().filter((node) => node.style('label'));
    const only = { includeNodes: false, includeEdges: false, includeOverlays: false, includeUnderlays: false };
    const sizes = named.map((node) => zoom * node.numericStyle('font-size'));
    return { all: canvas.nodes().length, names: named.map((node) => node.id()), sizes,
        boxes: named.map((node) => node.boundingBox({ ...only, includeLabels: true })) };
}"""


@pytest.mark.parametrize("hops", [1, 3])
def test_names_are_large_enough_to_read_and_lie_on_no_other(windows, service, hops):
    page = windows.open(service, f"#/graph/France?hops={hops}")
    drawn(page)
    page.wait_for_function("() => document.querySelector('.canvas').canvas.zoom() !== 1")
    page.wait_for_timeout(300)  # names follow the zoom
    found = page.evaluate(NAMES)
    assert "France" in found["names"]
    assert len(found["names"]) > found["all"] / 4
    assert min(found["sizes"]) > 10.5
    inner = [(box["x1"] + 2, box["x2"] - 2, box["y1"] + 2, box["y2"] - 2) for box in found["boxes"]]
    for place, (left, right, top, bottom) in enumerate(inner):
        for other in inner[:place]:
            assert left >= other[1] or right <= other[0] or top >= other[3] or bottom <= other[2]
    keep(page, f"canvas-{hops}")


def test_the_legend_hides_and_shows_a_relation(windows, service):
    page = windows.open(service, "#/graph/France")
    drawn(page)
    before = count(page, VISIBLE)
    page.locator("ul.relations button", has_text="borders").click()
    page.wait_for_function(f"() => {COUNT % VISIBLE} < {before}")
    assert page.locator("ul.relations button", has_text="borders").get_attribute("aria-pressed") == "false"
    page.locator("ul.relations button", has_text="borders").click()
    page.wait_for_function(f"() => {COUNT % VISIBLE} === {before}")


def test_a_predicted_link_is_dashed_and_decided_in_place_by_keyboard(windows, service):
    page = windows.open(service, "#/graph/Switzerland?at_least=0", name="Ann")
    drawn(page)
    if not count(page, "edges('.predicted')"):
        pytest.skip("this run predicts nothing around Switzerland")
    style = page.evaluate("document.querySelector('.canvas').canvas.edges('.predicted')[0].style('line-style')")
    assert style == "dashed"
    page.locator(".canvas").focus()
    page.keyboard.press("n")
    page.wait_for_selector(".on-edge:not([hidden]) .mark.accept")
    page.keyboard.press("a")
    page.wait_for_selector(".on-edge .mark.accept[aria-pressed=true]")
    assert count(page, "edges('.accept')") == 1
    page.locator(".on-edge .mark.reject").click()
    page.wait_for_selector(".on-edge .mark.reject[aria-pressed=true]")
    assert count(page, "edges('.accept')") == 0
    page.keyboard.press("z")
    page.wait_for_selector("text=taken back")


def test_arrow_keys_and_enter_expand(windows, service):
    page = windows.open(service, "#/graph/France")
    drawn(page)
    before = count(page, "nodes()")
    page.locator(".canvas").focus()
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(".chosen h2 a")
    page.keyboard.press("p")
    assert count(page, "nodes('.pinned')") == 1
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_function(
        f"() => {COUNT % 'nodes()'} > {before} || document.body.innerText.includes('Nothing more is known')"
    )


def test_a_list_says_the_same_in_words(windows, service):
    page = windows.open(service, "#/graph/France")
    drawn(page)
    page.locator(".as-list summary").click()
    page.wait_for_selector(".as-list li:has-text('France borders Germany')")
    before = count(page, "nodes()")
    page.get_by_role("button", name="Expand Germany").click()
    page.wait_for_function(f"() => {COUNT % 'nodes()'} > {before}")


def test_it_is_saved_as_svg_and_png(windows, service):
    page = windows.open(service, "#/graph/France")
    drawn(page)
    with page.expect_download() as kept:
        page.get_by_role("button", name="Save as SVG").click()
    picture = ElementTree.parse(kept.value.path()).getroot()
    assert len(picture.findall("{http://www.w3.org/2000/svg}circle")) == count(page, "nodes()")
    with page.expect_download() as kept:
        page.get_by_role("button", name="Save as PNG").click()
    assert kept.value.path().read_bytes().startswith(b"\x89PNG")


def test_back_finds_the_canvas_as_it_was_left(windows, service):
    page = windows.open(service, "#/graph/France")
    drawn(page)
    before = count(page, "nodes()")
    page.mouse.dblclick(*node_at(page, "Switzerland"))
    page.wait_for_function(f"() => {COUNT % 'nodes()'} > {before}")
    page.wait_for_timeout(400)
    grown, spain = count(page, "nodes()"), node_at(page, "Spain")
    page.get_by_role("link", name="Facts as a table").click()
    page.wait_for_selector(".groups")
    page.go_back()
    drawn(page)
    page.wait_for_function(f"() => {COUNT % 'nodes()'} === {grown}")
    page.wait_for_timeout(200)
    assert node_at(page, "Spain") == pytest.approx(spain, abs=3)
