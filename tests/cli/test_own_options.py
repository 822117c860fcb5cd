"""Options that a command declares in its signature, as an operation declares its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from airflow_sqlqueue.cli.commands import Command, with_option_groups
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import option
from airflow_sqlqueue.queue.filters import TimeFilter

GIVEN: dict[str, Any] = {}


@dataclass(frozen=True)
class Shades:
    """Options of a group that is no operation."""

    room: Annotated[str, typer.Argument(help="The room of the lamps.")]
    shade: str | None = option(None, "only lamps of this shade")


def light(
    shades: Shades,
    lamp: list[str] | None = option(None, "a lamp, any number of times", metavar="NAME"),
    older_than: timedelta | None = option(None, "only lamps that are older: 30m, 12h"),
    dims: bool = option(False, "dim them", form="--dim"),
    warm: bool = option(True, "warm light", form="/"),
) -> None:
    """Light lamps."""
    GIVEN.update(room=shades.room, shade=shades.shade, lamp=lamp, older_than=older_than, dims=dims, warm=warm)


def run(*words: str) -> Any:
    app = typer.Typer(rich_markup_mode=None)
    app.command(cls=Command)(with_option_groups(light))
    return CliRunner().invoke(app, ["hall", *words], catch_exceptions=False)


def test_without_options_each_has_its_default() -> None:
    assert run().exit_code == 0
    assert GIVEN == {"room": "hall", "shade": None, "lamp": None, "older_than": None, "dims": False, "warm": True}


def test_values_have_their_types() -> None:
    given = ["--shade", "", "--lamp", "a", "--lamp", "b", "--older-than", "12h", "--dim", "--no-warm"]
    assert run(*given).exit_code == 0
    lamps = {
        "room": "hall",
        "shade": "",
        "lamp": ["a", "b"],
        "older_than": timedelta(hours=12),
        "dims": True,
        "warm": False,
    }
    assert lamps == GIVEN


def test_the_help_has_their_meanings() -> None:
    shown = " ".join(run("--help").stdout.split())
    for text in (
        "The room of the lamps.",
        "Only lamps of this shade.",
        "--lamp NAME",
        "--dim ",
        "--warm / --no-warm",
        "Only lamps that are older",
    ):
        assert text in shown


@pytest.mark.parametrize(
    ("text", "says"), [("", "--older-than is empty: give a time"), ("soon", "--older-than is 'soon'")]
)
def test_a_time_that_cannot_be_read_is_named_by_its_option(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        run("--older-than", text)


def test_a_made_up_condition_of_a_filter_is_an_option() -> None:
    @dataclass(frozen=True)
    class LampFilter(TimeFilter):
        """Filter of lamps."""

        texts = ("shade",)
        shade: str | None = option(None, "only lamps of this shade")
        sockets: frozenset[str] | None = option(None, "only lamps with these sockets", form="--socket")
        hidden: str | None = option(None, "only for programs", form=None)

        @classmethod
        def of(cls, values: dict[str, Any]) -> LampFilter:
            return cls(**cls.conditions_in(values))

    seen = []

    def command(where: Any) -> None:
        seen.append(where)

    command.__annotations__ = {"where": LampFilter, "return": None}
    app = typer.Typer(rich_markup_mode=None)
    app.command(cls=Command)(with_option_groups(command))
    shown = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    # The word for the value is typer's own, and not the same in each version.
    assert re.search(r"--shade \S+ Only lamps of this shade\.", shown)
    assert re.search(r"--socket \S+ Only lamps with these sockets; any number of times\.", shown)
    assert "programs" not in shown
    done = CliRunner().invoke(app, ["--shade", "", "--since", "2026-01-31"], catch_exceptions=False)
    assert done.exit_code == 0
    assert seen == [LampFilter(shade="", since=datetime(2026, 1, 31, tzinfo=timezone.utc))]
    assert ":param shade: only lamps of this shade.\n" in (LampFilter.__doc__ or "")
