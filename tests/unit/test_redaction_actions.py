"""The table of actions: a made-up action works everywhere, and one outside of the table is refused everywhere."""

from __future__ import annotations

import json
import pickle
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_sqlqueue.bodies.redaction.actions import ACTIONS, PLACES, RedactionAction
from airflow_sqlqueue.bodies.redaction.redactor import Redactor
from airflow_sqlqueue.bodies.redaction.rules import RedactionRules
from airflow_sqlqueue.cli.app import app
from airflow_sqlqueue.cli.redaction import rules_help
from airflow_sqlqueue.drain.erase import Conditions, EraseRequest
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.hooks.staging import redactor_of
from airflow_sqlqueue.messages.message import HeaderNames
from airflow_sqlqueue.messages.row import NAMES, Row
from tests.cli.runner import one_sentence, sqlqueue

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "redaction.md"
KEY = "a key of 16 bytes or more"
PLACE = "Shop.PlaceOrder"
BLURRED_ID = str(uuid.UUID(int=99))
BLUR = RedactionAction(
    name="blur",
    meaning="made up",
    strictness=15,
    places=frozenset({"fields", "headers", "body"}),
    needs_key=True,
    changes={
        "text": lambda text, hasher: f"<\"{len(text)}'&>",
        "number": lambda text, hasher: "a number",
        "boolean": lambda text, hasher: "a bool",
        "object": lambda text, hasher: "an object",
        "header": lambda text, hasher: f"h{len(text)}",
        "row_id": lambda text, hasher: BLURRED_ID,
    },
)


@pytest.fixture
def blur(monkeypatch: pytest.MonkeyPatch) -> RedactionAction:
    monkeypatch.setitem(ACTIONS, "blur", BLUR)
    return BLUR


def row(body: bytes, **headers: str) -> Row:
    named = json.dumps({HeaderNames.ENCLOSED_MESSAGE_TYPES: PLACE, **headers})
    return Row(str(uuid.UUID(int=7)), "column", None, True, None, named, body, 1, False)


def examined(given: Row, **rule: Any) -> Any:
    return Redactor.of({"message_type": PLACE, **rule}, KEY).examine(given)


@pytest.mark.usefixtures("blur")
def test_a_made_up_action_changes_fields_of_json() -> None:
    body = {"A": "abc", "B": 1.50, "C": True, "D": None, "E": {"F": 1}, "G": ["x", [2]], "H": {"$values": ["yy"]}}
    found = examined(row(json.dumps(body).encode()), fields={"*": "blur"})
    expected = {"A": "<\"3'&>", "B": "a number", "C": "a bool", "D": None, "E": "an object"}
    wrapped = {"G": ["<\"1'&>", ["a number"]], "H": {"$values": ["<\"2'&>"]}}
    assert json.loads(found.row.body) == {**expected, **wrapped}
    assert found.fields == {"*": "blur"}


@pytest.mark.usefixtures("blur")
def test_a_made_up_action_changes_fields_of_xml() -> None:
    body = b'<M><A Ccy="EUR">1</A><B><C>2</C></B><D/><E F="x"/></M>'
    found = examined(row(body), fields={"A": "blur", "B": "blur", "D": "blur", "E.@F": "blur"})
    one, three = (f"&lt;&quot;{length}&apos;&amp;&gt;" for length in (1, 3))
    expected = f'<M><A Ccy="{three}">{one}</A><B>an object</B><D/><E F="{one}"/></M>'
    assert found.row.body == expected.encode()


@pytest.mark.usefixtures("blur")
def test_a_made_up_action_changes_headers_columns_and_the_id() -> None:
    names = {"Secret": "blur", HeaderNames.CORRELATION_ID: "blur", HeaderNames.MESSAGE_ID: "blur"}
    found = examined(row(b"", Secret="abc"), headers=names).row
    assert json.loads(found.headers)["Secret"] == "h3"
    assert (found.id, found.correlation_id) == (BLURRED_ID, "h6")


@pytest.mark.usefixtures("blur")
def test_a_made_up_action_leaves_out_bodies_and_stays_with_listed_fields() -> None:
    assert examined(row(b"secret"), body="blur").row.body is None
    kept = examined(row(b'{"A":"abc","B":1,"C":2}'), fields={"A": "blur"}, keep_fields=["B"])
    assert json.loads(kept.row.body) == {"A": "<\"3'&>", "B": 1}


@pytest.mark.usefixtures("blur")
def test_the_strictest_counts_whatever_the_order() -> None:
    for other, expected in (("hash", "<\"1'&>"), ("mask", "***"), ("drop", None)):
        for names in ((other, "blur"), ("blur", other)):
            rules = [{"message_type": PLACE, "fields": {"A": name}} for name in names]
            found = Redactor.of(rules, KEY).examine(row(b'{"A":"x"}'))
            assert json.loads(found.row.body or b"").get("A") == expected
            assert found.fields == {"A": other if other != "hash" else "blur"}


@pytest.mark.usefixtures("blur")
def test_a_made_up_action_with_a_key_needs_one_and_its_forms_are_erased() -> None:
    with pytest.raises(ConfigurationError, match="key"):
        Redactor.of({"message_type": PLACE, "fields": {"A": "blur"}})
    found = examined(row(b'{"A":"abc"}', Secret="abc"), headers={"Secret": "blur"}, fields={"A": "blur"}).row
    for condition in (
        {"fields": {"A": "abc"}},
        {"headers": {"secret": "abc"}},
        {"message_ids": [str(uuid.UUID(int=3))]},
    ):
        given = found if "message_ids" not in condition else found._replace(id=BLURRED_ID)
        assert meets(EraseRequest(key=KEY, **condition), given) is True  # type: ignore[arg-type]
    assert meets(EraseRequest(fields={"A": "abcde"}, key=KEY), found) is False


def meets(request: EraseRequest, given: Row) -> bool | None:
    return Conditions(request).match(dict(zip(NAMES, given, strict=True)))


def listed_in_the_guide() -> list[str]:
    """Actions that the guide's table does not name with their meaning and their places."""
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", GUIDE.read_text("utf-8"), re.MULTILINE)
    known = {name: (places, meaning) for name, places, meaning in rows}
    return [
        name
        for name, action in ACTIONS.items()
        if known.get(name) != (", ".join(each for each in PLACES if each in action.places), action.meaning)
    ]


def help_of_redact() -> str:
    return " ".join(CliRunner().invoke(app, ["redact", "--help"]).output.replace("│", " ").split())


def test_the_guide_and_the_command_line_list_the_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed_in_the_guide() == []
    assert rules_help() in help_of_redact()
    monkeypatch.setitem(ACTIONS, "blur", BLUR)
    assert listed_in_the_guide() == ["blur"]
    assert "drop or mask or blur or hash fields, drop or blur or hash headers, drop or blur body" in rules_help()


def test_no_two_actions_are_equally_strict() -> None:
    assert len({action.strictness for action in ACTIONS.values()}) == len(ACTIONS)


def refusals() -> dict[str, Any]:
    rule = {"message_type": PLACE}
    return {
        "fields": lambda: RedactionRules.of({**rule, "fields": {"A": "blur"}}),
        "headers": lambda: RedactionRules.of({**rule, "headers": {"A": "blur"}}),
        "body": lambda: RedactionRules.of({**rule, "body": "blur"}),
        "not a text": lambda: RedactionRules.of({**rule, "fields": {"A": ["mask"]}}),
        "nothing": lambda: RedactionRules.of({**rule, "headers": {"A": None}}),
        "of no header": lambda: RedactionRules.of({**rule, "headers": {"A": "mask"}}),
        "case": lambda: RedactionRules.of({**rule, "fields": {"A": "Mask"}}),
        "hook": lambda: redactor_of([{**rule, "fields": {"A": "blur"}}], None),
    }


@pytest.mark.parametrize("entry", refusals())
def test_an_action_outside_of_the_table_is_refused(entry: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown action"):
        refusals()[entry]()


@pytest.mark.parametrize("rule", [{"fields": {"A": "blur"}}, {"headers": {"A": "blur"}}])
def test_a_process_that_lacks_an_action_redacts_nothing(monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]) -> None:
    """Executors get redactors from a driver, which may have another version."""
    with monkeypatch.context() as driver:
        driver.setitem(ACTIONS, "blur", BLUR)
        sent = pickle.dumps(Redactor.of({"message_type": PLACE, **rule}, KEY))
    with pytest.raises(ConfigurationError, match="unknown action"):
        pickle.loads(sent).examine(row(b'{"A":"secret"}', A="secret"))


def test_the_command_line_refuses_it(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps([{"message_type": PLACE, "fields": {"A": "blur"}}]))
    for command in (["redact", "q", "--dry-run", "--rules", str(file)], ["drain", "q", "--redaction", str(file)]):
        options = ["--staging", str(tmp_path)] if command[0] == "drain" else []
        done = sqlqueue(*command, *options, url="mssql://sa:secret@localhost:1/x")
        assert "unknown action" in one_sentence(done, 2)
