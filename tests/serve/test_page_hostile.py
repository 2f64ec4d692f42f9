"""Labels that try to be markup, formulas, addresses or nothing at all stay text in every view."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pytest
from browsing import PHONE, fits
from graphs import toy_dataset
from services import running

from tuckerkg import api
from tuckerkg.training.callbacks import NullCallback

pytestmark = pytest.mark.browser

TITLES = [
    "<script>window.hurt = 1</script>",
    '<img src="/nowhere" onerror="window.hurt = 1">',
    "turned \u202e round",
    "long " * 800,
    "{{7*7}} %s ${window.hurt=1}",
    "javascript:window.hurt=1",
    '"><svg onload=window.hurt=1>',
    "</title></head><h1>mine",
    "'; DROP TABLE facts; --",
    '=HYPERLINK("http://example.org")',
    "../../../etc/passwd",
    "#/why/a/b/c",
    "?run=other&x=1",
    "%00%2f%3Cscript%3E",
    "&lt;b&gt;bold&lt;/b&gt;",
    "&#60;script&#62;",
    "a\u200bb\u2060c",
    "\ufeffmarked",
    "e\u0301" * 30,
    "Z\u0351\u036b\u0343\u036a\u0302a\u0328l\u034e\u0353g\u0347o",
    "עברית والعربية",
    "👩‍👩‍👧‍👦" * 10,
    "-1+1",
    "@SUM(A1)",
    "null",
    "undefined",
    "__proto__",
    "constructor",
    "toString",
    "NaN",
    "0",
    "`${window.hurt = 1}`",
    "<style>body{display:none}</style>",
    "<a href='javascript:window.hurt=1'>press</a>",
    "<iframe src=/>",
    "<base href='http://example.org/'>",
    "]]><!--",
    "\\u003cscript\\u003e",
    "W" * 300,
    "<textarea><form action=/>",
]
RELATIONS = {"plus1": "<b onmouseover='window.hurt=1'>is next to</b>", "plus2": "W" * 400, "plus3": "</td></table>"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    titles = {f"e{place:03}": title for place, title in enumerate(TITLES)}
    data = replace(toy_dataset(num_entities=40), entity_titles=titles, relation_titles=RELATIONS)
    changes = {"model.dim": 8, "model.relation_dim": 8, "train.epochs": 4.0, "train.threads": 1}
    run = api.train(data, out=tmp_path_factory.mktemp("hostile") / "run", overrides=changes, callback=NullCallback())
    with running(run.path) as service:
        yield service


OPENED = """(label) => document.querySelector('main:not([aria-busy]) .groups')
    && document.querySelector('.trail')?.textContent.includes(label)"""


def unhurt(page):
    assert page.evaluate("window.hurt") is None
    assert page.locator("main img, main iframe, main script, main style, main textarea, main base").count() == 0
    assert page.evaluate("document.title").endswith("tuckerkg")


def test_s8_b69_forty_labels_are_text_on_their_pages(windows, hostile):
    assert len(TITLES) == 40
    page = windows.open(hostile)
    for place, title in enumerate(TITLES):
        page.goto(f"{hostile.address}/#/entity/e{place:03}")
        page.wait_for_function(
            OPENED,
            arg=f"e{place:03}",
        )
        heading = page.locator("h1").text_content()
        if title.isascii():
            assert heading[:20].strip() == title[:20].strip()
        assert len(heading) <= 300
        assert "\u202e" not in heading
        unhurt(page)
    assert fits(page)


@pytest.mark.parametrize(
    "where",
    [
        "",
        "#/review?at_least=0",
        "#/graph/e000",
        "#/ask/e000/plus1/head",
        "#/relations",
        "#/relation/plus1",
        "#/why/e000/plus1/e001",
        "#/model",
        "#/runs",
    ],
)
def test_s8_b69_no_view_takes_labels_for_markup_on_a_phone(windows, hostile, where):
    page = windows.open(hostile, where, viewport=PHONE)
    page.wait_for_function("() => !document.querySelector('.progress:not([hidden])')")
    page.wait_for_timeout(300)
    unhurt(page)
    assert fits(page)


def test_s8_b69_search_and_problems_show_labels_as_text(windows, hostile):
    page = windows.open(hostile, quiet=True)
    page.fill("#query", "script")
    page.wait_for_selector("#matches li[role=option]:has-text('<script>')")
    unhurt(page)
    page.goto(f"{hostile.address}/#/entity/{quote('<script>window.hurt=1</script>x', safe='')}")
    page.wait_for_selector("h1:text-is('Not found')")
    unhurt(page)
