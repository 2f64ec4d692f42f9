"""Pictures of the page on a run: start, review, canvas, entity, answers, reasons, a phone. Needs Chromium.

python -m scripts.take_screenshots runs/countries France borders docs/images
python -m scripts.take_screenshots runs/fb15k-237 "Jeremy Irons" /award/ docs/images --prefix fb15k-237- --only steps
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.load import start

PHONE = {"width": 390, "height": 780}
READY = "main:not([aria-busy]) h1"
DRAWN = "() => !!document.querySelector('ul.relations li')"
NODES = "document.querySelector('.canvas').canvas.nodes().length"
NEXT = """(before) => {
    const { canvas } = document.querySelector('.canvas');
    const from = before === null ? canvas.nodes('.centre') : canvas.getElementById(before);
    const near = from.neighborhood('node').filter((node) => !node.hasClass('open')
        && node.neighborhood('node').length === 1 && node.data('entity').facts < 90);
    const { x, y } = near.max((node) => node.data('entity').facts).ele.renderedPosition();
    return { x, y, id: near.max((node) => node.data('entity').facts).ele.id() };
}"""


def shot(page: Page, path: Path, colours: int = 128) -> None:
    """A picture of what is seen, in few colours: a fifth of the size."""
    page.wait_for_timeout(600)
    page.screenshot(path=path)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def see_start(page: Page, address: str, name: str, relation: str) -> None:
    page.goto(f"{address}#/")
    page.wait_for_selector(".proof .tick")
    page.wait_for_selector(".open-list li.link, .open-list .empty")


def see_review(page: Page, address: str, name: str, relation: str) -> None:
    page.goto(f"{address}#/review?at_least=0.1")
    page.wait_for_selector(".open-list li.link.here")
    for key in ("a", "r", "a"):
        page.keyboard.press(key)
        page.wait_for_timeout(1_500)


def see_entity(page: Page, address: str, name: str, relation: str) -> None:
    find(page, address, name)
    page.wait_for_selector(".chips li a")
    page.wait_for_function(
        "() => ![...document.querySelectorAll('.predicted .soft')].some((one) => one.textContent === '…')"
    )


def see_canvas(page: Page, address: str, name: str, relation: str) -> None:
    find(page, address, name)
    page.get_by_role("link", name="Canvas", exact=True).click()
    page.wait_for_function(DRAWN)


def see_steps(page: Page, address: str, name: str, relation: str) -> None:
    """Three steps outwards: two more entities are expanded, each a neighbour of the one before."""
    see_canvas(page, address, name, relation)
    box = page.locator(".canvas").bounding_box()
    assert box is not None
    at = None
    for _ in range(2):
        found = page.evaluate(NEXT, at)
        at = found["id"]
        before = page.evaluate(NODES)
        page.mouse.dblclick(box["x"] + found["x"], box["y"] + found["y"])
        page.wait_for_function(f"(before) => ({NODES}) > before", arg=before)
        page.wait_for_timeout(900)
    page.get_by_role("button", name="Show everything").click()


def see_answers(page: Page, address: str, name: str, relation: str) -> None:
    find(page, address, name)
    page.wait_for_selector(".chips li a")
    page.locator(f'.chips a[href*="{relation.replace("/", "%2F")}"]').first.click()
    page.wait_for_selector("li.link")


def see_why(page: Page, address: str, name: str, relation: str) -> None:
    see_answers(page, address, name, relation)
    page.locator("li.link a.why").first.click()
    page.wait_for_selector("svg.why-picture")
    page.locator("svg.why-picture").scroll_into_view_if_needed()


def find(page: Page, address: str, name: str) -> None:
    page.goto(f"{address}#/model")
    page.wait_for_selector(READY)
    page.fill("#query", name)
    page.wait_for_selector("#matches li.entity")
    page.locator("#matches li.entity").first.click()
    page.wait_for_selector(".groups")


VIEWS: dict[str, Callable[[Page, str, str, str], None]] = {
    "start": see_start,
    "entity": see_entity,
    "canvas": see_canvas,
    "steps": see_steps,
    "answers": see_answers,
    "why": see_why,
    "review": see_review,
}


def window(browser: Browser, size: dict[str, int], **options: object) -> Page:
    context = browser.new_context(viewport=size, **options)  # type: ignore[arg-type]
    context.add_init_script("localStorage.setItem('tuckerkg-name', 'Ann')")
    page = context.new_page()
    page.set_default_timeout(120_000)
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name", help="of an entity")
    parser.add_argument("relation", help="the beginning of a relation's label")
    parser.add_argument("out", type=Path)
    parser.add_argument("--prefix", default="page-")
    parser.add_argument("--only", nargs="*", default=[view for view in VIEWS if view != "steps"] + ["phone"])
    parser.add_argument("--width", type=int, default=1100)
    parser.add_argument("--height", type=int, default=760)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    size = {"width": given.width, "height": given.height}
    process, port = start(given.run)
    address = f"http://127.0.0.1:{port}/"
    try:
        with sync_playwright() as started:
            chromium = shutil.which("chromium") or shutil.which("chromium-browser")
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = window(browser, size)
            for view in (view for view in VIEWS if view in given.only):
                VIEWS[view](page, address, given.name, given.relation)
                shot(page, given.out / f"{given.prefix}{view}.png")
            if "phone" in given.only:
                page = window(browser, PHONE)
                see_entity(page, address, given.name, given.relation)
                shot(page, given.out / f"{given.prefix}phone.png")
            if "dark" in given.only:
                page = window(browser, size, color_scheme="dark")
                see_canvas(page, address, given.name, given.relation)
                shot(page, given.out / f"{given.prefix}dark.png")
            browser.close()
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
