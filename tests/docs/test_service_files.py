"""Files of guides: the service's container file and systemd unit parse, and run commands that exist; a pipeline's
specification is one that Spark takes.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from configparser import RawConfigParser
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from typer.main import get_command

from airflow_sqlqueue.cli.app import app
from tests.docs.markdown import ROOT

FOLDER = ROOT / "docs" / "guides" / "service"
PAGE = (ROOT / "docs" / "guides" / "service.md").read_text("utf-8")

INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"}


def instructions() -> Iterator[tuple[str, str]]:
    """Instructions of the container file with their arguments, without comments and line continuations."""
    text = re.sub(r"^#.*\n", "", (FOLDER / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        name, _, rest = line.partition(" ")
        yield name, rest


def unit() -> RawConfigParser:
    parser = RawConfigParser(strict=True, delimiters="=", comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((FOLDER / "sqlqueue-consume.service").read_text("utf-8"))
    return parser


def options_of(words: list[str]) -> dict[str, object]:
    """Values of the options of a command line, which must be one of ``sqlqueue consume``."""
    program, name, *arguments = words
    assert program.rpartition("/")[2] == "sqlqueue"
    group: Any = get_command(app)
    return dict(group.commands[name].make_context(name, arguments).params)


@pytest.mark.parametrize("name", ["Dockerfile", "sqlqueue-consume.service", "shop_billing.py"])
def test_the_page_shows_the_file(name: str) -> None:
    assert f"{{literalinclude}} service/{name}\n" in PAGE


def test_the_container_file() -> None:
    found = dict(instructions())
    assert found.keys() == INSTRUCTIONS
    shown = options_of(json.loads(found["ENTRYPOINT"]))
    assert (shown["handlers"], shown["health_host"]) == ("shop_billing:handlers", "0.0.0.0")
    assert str(shown["health_port"]) == found["EXPOSE"]
    _, _, check = found["HEALTHCHECK"].partition("CMD ")
    program, flag, code = json.loads(check)
    assert (program, flag) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    assert f":{found['EXPOSE']}/health/live" in code
    assert found["COPY"].split()[0] == "shop_billing.py"


def test_the_systemd_unit() -> None:
    found = unit()
    assert found.sections() == ["Unit", "Service", "Install"]
    shown = options_of(shlex.split(found["Service"]["ExecStart"]))
    assert (shown["handlers"], shown["queue"], shown["inbox"]) == ("shop_billing:handlers", "orders", True)
    assert found["Service"]["Restart"] == "on-failure", "exit code 0 is a stop that was asked for"
    assert found["Service"]["KillMode"] == "mixed", "SIGTERM reaches the command once"
    limit = (found["Unit"]["StartLimitBurst"], found["Unit"]["StartLimitIntervalSec"])
    assert limit == ("3", "1h"), "a login may be locked after a few refused passwords"


def test_the_storage_of_a_pipeline_is_a_url() -> None:
    """Spark refuses a path without a scheme (PIPELINE_STORAGE_ROOT_INVALID)."""
    text = (FOLDER.parent / "pipelines" / "spark-pipeline.yml").read_text("utf-8")
    assert urlsplit(yaml.safe_load(text)["storage"]).scheme == "file"
