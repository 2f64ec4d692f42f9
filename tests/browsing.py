"""The page in Chromium: windows that fail a test by whatever goes wrong in them, and waiting for what they show."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESK = {"width": 1100, "height": 800}
PHONE = {"width": 360, "height": 640}


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright import sync_api

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_api.sync_playwright() as started:
        found = started.chromium.launch(executable_path=path, args=FLAGS)
        yield found
        found.close()


class Windows:
    """Opens pages; a console error, an exception or a request to anywhere else is noted in ``wrong``."""

    def __init__(self, browser):
        self.browser, self.contexts, self.wrong = browser, [], []

    def open(self, service, where="", *, name="Ann", quiet=False, **options):
        context = self.browser.new_context(**{"viewport": DESK, "accept_downloads": True} | options)
        self.contexts.append(context)
        if name:
            context.add_init_script(f"localStorage.setItem('tuckerkg-name', {name!r})")
        page = context.new_page()
        page.set_default_timeout(60_000)
        if not quiet:
            page.on("console", lambda message: message.type == "error" and self.wrong.append(message.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda request: self._sent(service, request.url))
        page.goto(f"{service.address}/{where}")
        shown(page)
        return page

    def _sent(self, service, url):
        if not url.startswith((service.address, f"blob:{service.address}")):
            self.wrong.append(url)

    def close(self):
        for context in self.contexts:
            context.close()


def shown(page):
    """Waits until the view stands."""
    page.wait_for_selector("main:not([aria-busy]) h1")


def listed(page):
    """Waits until links are listed, and returns their rows."""
    page.wait_for_selector(".open-list li.link")
    return page.locator(".open-list li.link")


def fits(page) -> bool:
    """Whether nothing has to be moved sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def keep(page, name):
    """A screenshot, where a folder for them is named."""
    if "TUCKERKG_SCREENSHOTS" in os.environ:
        page.screenshot(path=Path(os.environ["TUCKERKG_SCREENSHOTS"]) / f"{name}.png")
