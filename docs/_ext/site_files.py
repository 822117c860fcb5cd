"""Files of the hosted manual beside its pages: ``llms.txt``, a list of them, and ``sitemap.xml`` with ``SITE_URL``."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from docutils import nodes
from sphinx.application import Sphinx


def write_site_files(app: Sphinx, error: Exception | None) -> None:
    """Write the files; each page has its title and its first sentence in ``llms.txt``."""
    if error is not None or app.builder.name != "html":
        return
    base, out = str(app.config.html_baseurl), Path(app.outdir)
    first = str(app.config.root_doc)
    pages = [first, *(page for page in _in_order(app, first) if page != first)]
    addresses = [base + app.builder.get_target_uri(page) for page in pages]
    lines = [
        f"- [{app.env.titles[page].astext()}]({address}): {_first_sentence(app, page)}"
        for page, address in zip(pages, addresses, strict=True)
    ]
    (out / "llms.txt").write_text(f"# {app.config.html_title}\n\n" + "\n".join(lines) + "\n", "utf-8")
    if base:
        urls = "".join(f"<url><loc>{escape(address)}</loc></url>" for address in addresses)
        text = f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>\n'
        (out / "sitemap.xml").write_text(text, "utf-8")


def _in_order(app: Sphinx, page: str) -> list[str]:
    """Return a page and those below it, in the order of the contents."""
    below = app.env.toctree_includes.get(page, [])
    return [page, *(found for each in below for found in _in_order(app, each))]


def _first_sentence(app: Sphinx, page: str) -> str:
    found = app.env.get_doctree(page).findall(nodes.paragraph)
    paragraph = next((each for each in found if isinstance(each.parent, nodes.section)), None)
    text = "" if paragraph is None else " ".join(paragraph.astext().split())
    return text.partition(". ")[0].rstrip(".") + "."


def setup(app: Sphinx) -> None:
    app.connect("build-finished", write_site_files)
