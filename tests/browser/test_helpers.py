"""What the other tests here look through: waiting under a strict policy, and counting what is printed."""

from __future__ import annotations

import zlib

import pytest
from browser.paper import num_images, pages_of
from browser.standin import made
from browser.waits import wait_until


def test_waiting_is_not_refused_by_the_policy_of_a_page(open_page, tmp_path):
    """Also for what is false at first: `open_page` asserts that the policy was not violated."""
    file = tmp_path / "page.html"
    file.write_text(made(), encoding="utf-8")
    page = open_page(file)
    page.evaluate("() => { setTimeout(() => { window.late = 3; }, 200); }")
    wait_until(page, "window.late === 3")
    wait_until(page, "(number) => window.late === number", 3)


@pytest.mark.parametrize(
    ("inside", "directives"),
    [
        ('<p style="color: red">a</p>', {"style-src-attr"}),
        ("<style>p { color: red; }</style>", {"style-src-elem"}),
        ("<script>window.ran = true;</script>", {"script-src-elem"}),
        ('<img src="x" onerror="window.ran = true">', {"img-src", "script-src-attr"}),
        ("<p>a</p>", set()),
    ],
)
def test_what_a_policy_refuses_is_noticed(contexts, tmp_path, inside, directives):
    """By the same listener as in `open_page`: nothing that is refused runs, and each is a message on the console."""
    page = contexts().new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    file = tmp_path / "page.html"
    file.write_text(made().replace("<main>", f"<main>{inside}", 1), encoding="utf-8")
    page.goto(file.as_uri())
    page.locator("html[data-live]").wait_for(state="attached")
    assert page.evaluate("window.ran") is None
    assert {text.split()[3] for text in refused if text.startswith("content security policy: ")} == directives
    page.close()


def _pdf(contents: bytes) -> bytes:
    """A PDF of one page with these compressed operators."""
    data = zlib.compress(contents)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Resources<<>>/Contents 4 0 R>>",
        b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(data), data),
    ]
    text, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(text))
        text += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    tail = b"trailer<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % len(text)
    return text + b"xref\n0 5\n0000000000 65535 f \n" + table + tail


def test_texts_of_a_page_are_counted():
    """Two, whatever its compressed bytes are: some end in a carriage return, and a text may look like an operator."""
    endings = set()
    for number in range(1000):
        contents = b"BT (a Tj) Tj [(b)] TJ ET %%%d\n" % number
        endings.add(zlib.compress(contents)[-1:])
        assert pages_of(_pdf(contents)) == [2]
    assert {b"\r", b"\n"} <= endings


def test_images_inside_patterns_are_counted(open_page, tmp_path):
    file = tmp_path / "page.html"
    pattern = '<pattern id="a" width="7" height="7" patternUnits="userSpaceOnUse"><path d="M0 7L7 0" stroke="red"/></pattern>'
    for fill, has_image in (("red", False), ("url(#a)", True)):
        file.write_text(f'<svg>{pattern}<rect width="99" height="99" fill="{fill}"/></svg>', encoding="utf-8")
        assert (num_images(open_page(file).pdf()) > 0) == has_image
