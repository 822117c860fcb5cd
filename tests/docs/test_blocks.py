"""Every code block of README.md and of the manual works as it is shown, page by page and in the page's order."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_sqlqueue.cli.app import app
from tests.docs.markdown import PAGES, ROOT, Block, blocks
from tests.docs.shell import Shell

LANGUAGES = {"python", "sh", "text", "sql", "json", "yaml"}
README, GUIDES = ROOT / "README.md", ROOT / "docs" / "guides"
WITH_BLOCKS = [page for page in PAGES if any(blocks(page))]


def an_abandoned_stream() -> None:
    from airflow_sqlqueue import Message, QueueClient
    from airflow_sqlqueue.spark.source.claims import Claims, StreamOptions
    from airflow_sqlqueue.spark.source.options import ServerAccess, SourceOptions

    client = QueueClient.from_url(os.environ["SQLQUEUE_URL"])
    client.tables.create("audit")
    client.queue("audit").send([Message({}, b"x")])
    queue = client.resolve("audit").canonical
    claims = Claims(ServerAccess.of(SourceOptions({}), client.settings), StreamOptions(queue, "lake", 1, 1, False))
    claims.claim(claims.begin(), 1)
    claims.close()


def the_module_of_handlers() -> None:
    shutil.copy(GUIDES / "service" / "shop_billing.py", Path.cwd())


PRESENT = {"spark": an_abandoned_stream, "service": the_module_of_handlers}
"""Preparations of pages: the traces of a dead process that blocks repair, a file that a page includes."""


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_work_in_their_order(
    page: Path, database: Callable[[str], str], one_session: None
) -> None:
    database(f"docs_{page.stem}")
    if page.stem in PRESENT:
        PRESENT[page.stem]()
    file = Path.cwd() / "dags" / "shown.py"
    shell, names = Shell(dict(os.environ)), {"__name__": "shown", "__file__": str(file)}
    for block in blocks(page):
        try:
            run(block, shell, names)
        except Exception as error:
            raise AssertionError(f"the block at {block} does not work: {error}") from error


def run(block: Block, shell: Shell, names: dict[str, Any]) -> None:
    if block.language == "sh":
        shell.run(block.text)
    elif block.language == "text":
        shell.check_printed(block.text)
    elif block.language == "python" and re.search(r"^def test_", block.text, re.MULTILINE):
        run_pytest(block)
    elif block.language == "python":
        exec(compile(block.padded, str(block.page), "exec"), names)
    elif block.language == "sql":
        run_sql(block.text)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        assert yaml.safe_load(block.text)
    else:
        raise AssertionError(f"a block is one of {', '.join(sorted(LANGUAGES))}, not {block.language or 'nameless'}")


def run_sql(text: str) -> None:
    """Undo statements that run outside of the database: a login belongs to the whole server."""
    from airflow_sqlqueue import QueueClient

    client = QueueClient.from_url(os.environ["SQLQUEUE_URL"])
    with client.session() as session:
        from airflow_sqlqueue.server.sql import Query

        for statement in filter(str.strip, text.split(";")):
            if "CREATE LOGIN" in statement:
                session.run(Query("login", "drop", "IF SUSER_ID(N'airflow') IS NOT NULL DROP LOGIN [airflow]"))
            session.run(Query("shown", "run what the page shows", statement))


def run_pytest(block: Block) -> None:
    """A block of tests is a file of tests, run in this process, where Airflow is loaded already."""
    file = Path("test_shown.py")
    file.write_text(block.text, "utf-8")
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, f"--rootdir={Path.cwd()}"]
    code = pytest.main([*arguments, str(file)])
    assert code == pytest.ExitCode.OK, f"pytest ended with {code!r}"


@pytest.fixture(scope="module")
def one_session() -> Iterator[None]:
    """A process has one Spark session at the most: the first page to ask for one starts it, and all pages share it."""
    from pyspark.sql import SparkSession

    import airflow_sqlqueue.spark.session

    start = airflow_sqlqueue.spark.local_session
    with ExitStack() as started, pytest.MonkeyPatch.context() as patch:

        @contextmanager
        def shared(*given: Any, **named: Any) -> Iterator[SparkSession]:
            yield SparkSession.getActiveSession() or started.enter_context(start(*given, **named))

        for module in (airflow_sqlqueue.spark, airflow_sqlqueue.spark.session):
            patch.setattr(module, "local_session", shared)
        yield


def test_the_dag_of_the_readme_has_its_tasks_in_order() -> None:
    names: dict[str, Any] = {}
    (block,) = [block for block in blocks(README) if "DAG(" in block.text]
    exec(compile(block.padded, "README.md", "exec"), names)
    assert names["drain"].upstream_task_ids == {"wait"}
    assert names["drain"].downstream_task_ids == {"purge"}
    assert all(task.retries == 3 for task in names["drain"].dag.tasks)
    assert (names["wait"].mode, names["wait"].timeout) == ("reschedule", 3000)


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_rows_of_a_block_are_written_by_a_mode_that_repeats(page: Path) -> None:
    """A job runs again on its batch, and Spark's default mode then fails for ever."""
    lines = [line for block in blocks(page) if block.language == "python" for line in block.text.splitlines()]
    assert [line for line in lines if ".write." in line and ".mode(" not in line] == []


def test_every_operator_and_sensor_has_a_line_in_a_guide() -> None:
    from airflow_sqlqueue import operators, sensors

    text = "".join(page.read_text("utf-8") for page in GUIDES.glob("*.md"))
    shown = set(re.findall(r"^\| `(SqlQueue\w+)`", text, re.MULTILINE))
    assert shown == {name for name in (*operators.__all__, *sensors.__all__) if name.startswith("SqlQueue")}


def test_every_command_is_run_in_a_guide() -> None:
    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {str(group.name) for group in app.registered_groups}
    shown = {
        name
        for page in GUIDES.glob("*.md")
        for block in blocks(page)
        if block.language == "sh"
        for name in re.findall(r"(?:^|\()sqlqueue ([\w-]+)", block.text, re.MULTILINE)
    }
    assert shown == known


def test_the_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 120
