"""A file that is dropped on the page: looked through, trained in sight, opened beside the run that is served."""

from __future__ import annotations

import pytest
from browsing import keep, shown
from services import running

pytestmark = pytest.mark.browser

FACTS = "".join(f"n{i}\tnext\tn{(i + 1) % 30}\nn{i}\tafter next\tn{(i + 2) % 30}\n" for i in range(30))
DROP = """(text) => {
  const data = new DataTransfer();
  data.items.add(new File([text], 'ring.tsv', { type: 'text/tab-separated-values' }));
  for (const kind of ['dragover', 'drop']) {
    document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
  }
}"""


def test_a_dropped_file_is_inspected_trained_and_opened(windows, countries_run):
    with running(countries_run, "--allow-training") as service:
        page = windows.open(service, quiet=True)  # one graph is asked for a name of the other: a 404
        page.evaluate(DROP, FACTS)
        page.wait_for_selector("h3:has-text('What is in ring.tsv')")
        assert "60" in page.locator(".after table").first.inner_text()
        keep(page, "dropped")
        page.get_by_label("Minutes of training").fill("5")
        page.get_by_label("Name of the run").fill("stopped")
        page.get_by_role("button", name="Train", exact=True).click()
        page.get_by_role("button", name="Stop").click()
        page.wait_for_selector("text=Training: stopped.")
        page.evaluate(DROP, FACTS)
        page.wait_for_selector("h3:has-text('What is in ring.tsv')")
        page.get_by_label("Minutes of training").fill("0.1")
        page.get_by_role("button", name="Train", exact=True).click()
        page.wait_for_selector(".job [role=progressbar]")
        page.get_by_role("link", name="Open ring").click(timeout=90_000)
        shown(page)
        page.wait_for_selector(".hero dd:text-is('60')")
        assert page.locator("#run select option").count() == 2
        page.goto(f"{service.address}/#/compare/France/borders/head")
        page.wait_for_selector(".beside-runs section:nth-child(2) h2")
        assert page.locator(".beside-runs .bad").count() == 1  # the new graph knows no France


def test_a_file_that_is_none_is_refused_in_words_and_training_is_off_by_default(windows, countries, countries_run):
    page = windows.open(countries, "#/runs")
    assert "Training from the page is off here" in page.locator("main").inner_text()
    with running(countries_run, "--allow-training") as service:
        page = windows.open(service, "#/runs", quiet=True)
        page.evaluate(DROP, "just one column\nand nothing else\n")
        page.wait_for_selector(".after .bad")
        assert "ring.tsv" in page.locator(".after").inner_text() or "column" in page.locator(".after").inner_text()
