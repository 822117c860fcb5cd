"""What a terminal gets to see of a message's text."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from airflow_sqlqueue.cli import output
from airflow_sqlqueue.cli.printable import printable

HOSTILE = {
    "\x1b[2J\x1b]52;c;cm0gLXJmIC8=\x07": r"\x1b[2J\x1b]52;c;cm0gLXJmIC8=\x07",
    "safe\roverwritten": r"safe\x0doverwritten",
    "\x9b31m": r"\x9b31m",
    "file\u202etxt.exe": r"file\u202etxt.exe",
    "\x7f\x00": r"\x7f\x00",
    "half \ud800": r"half \ud800",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_control_characters_are_escaped(text: str) -> None:
    assert printable(text) == HOSTILE[text]


@pytest.mark.parametrize("text", ["", "Łódź 🎁 ☃", "a\tb\nc", "C:\\x1b", "👩‍👩‍👧"])
def test_other_text_is_printed_as_it_is(text: str) -> None:
    assert printable(text) == text
    assert printable("a\r\nb") == "a\nb"


@pytest.mark.parametrize("as_list", [False, True])
def test_headers_send_no_commands_to_the_terminal(as_list: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(output, "stdout", Console(file=screen, width=200))
    for text in HOSTILE:
        record = {"exception": text, "addresses": [text]}
        output.show([record] if as_list else record, as_json=False, title="Failed")
        output.say(text, text)
    assert not set(screen.getvalue()) & {"\x1b", "\x07", "\x9b", "\r", "\x00", "\x7f", "\u202e"}
