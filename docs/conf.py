"""Configuration of Sphinx, which builds the manual from Markdown (MyST) and the docstrings: ``make docs``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

HERE = Path(__file__).parent
# Airflow creates its home when it is imported: not in the home folder of the user who builds the manual.
os.environ.setdefault("AIRFLOW_HOME", str(HERE / "_build" / "airflow"))
sys.path.insert(0, str(HERE / "_ext"))
sys.path.insert(0, str(HERE.parent))

from airflow_sqlqueue import __version__  # noqa: E402 - of this checkout, not of an installed package

project = "airflow-sqlqueue"
author = "The authors of airflow-sqlqueue"
project_copyright = "Apache-2.0"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "accessible",
    "command_line",
    "inherited_parameters",
    "site_files",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_ext"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

html_theme = "furo"
# Where the manual is hosted, if it is: with a slash at its end.
html_baseurl = os.environ.get("SITE_URL", "")
html_title = f"airflow-sqlqueue {version}"
html_copy_source = False
html_show_sphinx = False
highlight_language = "none"


def resolve_by_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.TextElement
) -> nodes.Element | None:
    """Resolve a class that a docstring names by its module to its public name in the manual."""
    if node.get("refdomain") != "py":
        return None
    domain = env.domains["py"]
    objects: dict[str, Any] = domain.data["objects"]
    parts = node["reftarget"].split(".")
    for length in (1, 2):
        wanted = ".".join(parts[-length:])
        found = [name for name in objects if name == wanted or name.endswith(f".{wanted}")]
        if len(found) == 1:
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, contnode)
    return None


def setup(app: Sphinx) -> None:
    app.connect("missing-reference", resolve_by_name)
