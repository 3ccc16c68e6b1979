"""One HTML file that needs nothing else: its style, its pictures inside it, and every text escaped."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence

import matplotlib
from matplotlib.figure import Figure

from irene.pictures import INK

CSS = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1d2129; --soft: #5d6675; --line: #e2e5ea; --wash: #f5f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171c; --ink: #e5e8ed; --soft: #9aa3b2; --line: #2c323b; --wash: #1c2027; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 58rem; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { margin: 0 0 .5rem; font-size: 1.1rem; font-weight: 600; color: var(--soft); }
h2 { margin: 2.75rem 0 .4rem; font-size: 1.15rem; }
p { margin: .4rem 0 .8rem; max-width: 44rem; }
p.lead { margin: 0 0 1.5rem; font-size: 1.45rem; line-height: 1.4; max-width: none; }
p.note { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; color: var(--soft); padding: .35rem .6rem;
  border-bottom: 1px solid var(--line); }
td { text-align: right; padding: .45rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
figure { margin: .8rem 0 0; overflow-x: auto; }
figure svg { width: 100%; min-width: 36rem; height: auto; display: block; }
details { border: 1px solid var(--line); border-radius: .5rem; background: var(--wash); margin: .6rem 0;
  padding: .6rem .9rem; }
summary { cursor: pointer; font-weight: 600; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .25rem 1.25rem; margin: .8rem 0 .2rem;
  font-size: .9rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font: .88em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
"""


class Page:
    """An HTML document, built from the top down."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self._pictures = 0

    def heading(self, text: str) -> None:
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str, kind: str = "") -> None:
        """A paragraph; `kind` is `lead` for the headline and `note` for small print."""
        chosen = f' class="{kind}"' if kind else ""
        self._parts.append(f"<p{chosen}>{html.escape(text)}</p>")

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        self._parts.append(f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>')

    def picture(self, figure: Figure, description: str) -> None:
        """A picture, with words for those who cannot see it."""
        self._pictures += 1
        svg = inline_svg(figure, f"picture{self._pictures}")
        label = html.escape(description, quote=True)
        self._parts.append(f'<figure role="img" aria-label="{label}">{svg}</figure>')

    def details(self, summary: str, facts: Mapping[str, str], *, code: Iterable[str] = ()) -> None:
        """Facts that unfold at a click; those named in `code` are shown as typed."""
        typed = set(code)
        lines = []
        for name, value in facts.items():
            shown = html.escape(value)
            shown = f"<code>{shown}</code>" if name in typed else shown
            lines.append(f"<dt>{html.escape(name)}</dt><dd>{shown}</dd>")
        self._parts.append(f"<details><summary>{html.escape(summary)}</summary><dl>{''.join(lines)}</dl></details>")

    def render(self, footer: str) -> str:
        """The whole document."""
        title = html.escape(self._title)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
            + "\n".join(self._parts)
            + f"\n<footer>{html.escape(footer)}</footer>\n</body>\n</html>\n"
        )


def inline_svg(figure: Figure, prefix: str) -> str:
    """A figure as an SVG element that takes its ink from the page; `prefix` keeps its ids apart from others'."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.patch.set_alpha(0)
        for axes in figure.axes:
            axes.patch.set_alpha(0)
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = svg.replace("url(#", f"url(#{prefix}-")
    return svg.replace(INK, "currentColor")
