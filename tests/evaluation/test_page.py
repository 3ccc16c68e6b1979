"""A page is one well-formed file: text escaped, pictures inside, nothing fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from irene.evaluation import report_pictures
from irene.evaluation.page import Page, inline_svg
from irene.pictures import INK, WIDTH

NASTY = "<script>alert('&\"')</script> $x$"
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Reader(HTMLParser):
    """Checks that elements are closed in order, and collects ids and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def nasty_page() -> str:
    page = Page(NASTY)
    page.heading(NASTY)
    page.text(NASTY, "lead")
    page.table((NASTY,), [(NASTY,)])
    page.picture(report_pictures.members_used({NASTY: [0.5, 0.5]}), NASTY)
    page.picture(report_pictures.members_used({NASTY: [0.5, 0.5]}), NASTY)
    page.details(NASTY, {NASTY: NASTY, "command": NASTY}, code=["command"])
    return page.render(NASTY)


def test_text_is_text() -> None:
    reader = read(nasty_page())
    assert "script" not in reader.tags
    assert reader.text.count(NASTY) >= 10


def test_nothing_is_fetched() -> None:
    text = nasty_page()
    assert not re.search(r"(src|href|action)\s*=\s*[\"'](?!#)", text)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_ids_of_pictures_do_not_collide_and_references_hold() -> None:
    text = nasty_page()
    ids = read(text).ids
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:href=\"|url\()#([^\")]+)", text)) <= set(ids)


def test_pictures_take_the_ink_of_the_page() -> None:
    svg = inline_svg(report_pictures.members_used({"run": [1.0]}), "p")
    assert svg.startswith("<svg")
    assert INK not in svg
    assert "currentColor" in svg
    assert "prefers-color-scheme: dark" in nasty_page()


def test_the_same_picture_gives_the_same_text() -> None:
    one, other = (inline_svg(report_pictures.members_used({"run": [0.4, 0.6]}), "p") for _ in range(2))
    assert one == other


def test_a_narrow_window_scrolls_pictures_and_does_not_shrink_their_text() -> None:
    style = nasty_page()
    assert re.search(r"figure \{[^}]*overflow-x: auto", style)
    (least,) = re.findall(r"figure svg \{[^}]*min-width: (\d+)rem", style)
    written = 10 * int(least) * 16 / (WIDTH * 72)  # of letters of 10 points, in pixels
    assert written >= 9
