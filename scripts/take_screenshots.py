"""Pictures of the page on a run: a search, an entity's facts, answers, an explanation. Needs Chromium and Playwright.

python -m scripts.take_screenshots runs/fb15k-237 "Jeremy Irons" "/award/award_nominee/award_nominations" out/
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from benchmarks.load import start


def shot(page: Page, path: Path) -> None:
    """A picture of what is seen, in 64 colours: a fifth of the size."""
    page.screenshot(path=path)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def journey(page: Page, address: str, name: str, relation: str, out: Path, prefix: str) -> None:
    """Searches ``name``, asks for the tails of the first suggested relation whose label begins with ``relation``."""
    page.goto(address)
    page.wait_for_selector("main:not([aria-busy]) h1")
    page.fill("#query", name)
    page.wait_for_selector("#matches li[role=option]")
    shot(page, out / f"{prefix}search.png")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#view h2")
    shot(page, out / f"{prefix}entity.png")
    page.locator(f'a[href*="{quote(relation, safe="")}"][href*="/ask/"]').first.click()
    page.wait_for_selector(".answers li")
    shot(page, out / f"{prefix}answers.png")
    page.locator(".answers a").first.click()
    page.wait_for_selector("figure svg rect")
    shot(page, out / f"{prefix}why.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("relation", help="the beginning of a relation's label")
    parser.add_argument("out", type=Path)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--width", type=int, default=900)
    parser.add_argument("--height", type=int, default=640)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    process, port = start(given.run)
    try:
        with sync_playwright() as started:
            chromium = shutil.which("chromium") or shutil.which("chromium-browser")
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": given.width, "height": given.height})
            page.set_default_timeout(60_000)
            journey(page, f"http://127.0.0.1:{port}/", given.name, given.relation, given.out, given.prefix)
            browser.close()
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
