"""Pages for people who use a keyboard or hear the page: what scrolls takes the focus, a signature is a list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_SCROLLS = re.compile(r'<pre(?=>)|<div class="table-wrapper[^>"]*"(?=>)')
_PARAMETERS = re.compile(r'<dl>\n(?=<dd><em class="sig-param")(.*?)</dl>', re.DOTALL)


def accessible(body: str) -> str:
    """Return the body of a page in which blocks that may scroll take the focus, and lists of parameters are lists."""

    def a_list(found: re.Match[str]) -> str:
        items = found[1].replace("<dd>", '<dd role="listitem">')
        return f'<dl role="list">\n{items}</dl>'

    return _PARAMETERS.sub(a_list, _SCROLLS.sub(r'\g<0> tabindex="0"', body))


def setup(app: Sphinx) -> dict[str, bool]:
    def mend(app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
        if "body" in context:
            context["body"] = accessible(context["body"])

    app.connect("html-page-context", mend)
    return {"parallel_read_safe": True}
