"""Options as fields of dataclasses: their texts, limits and docstrings, and values from texts."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from airflow_sqlqueue.drain.options import DrainOptions
from airflow_sqlqueue.endpoint.options import ConsumeOptions
from airflow_sqlqueue.errors import ConfigurationError
from airflow_sqlqueue.options import (
    BYTES,
    Options,
    argument,
    interval,
    number,
    option,
    plain,
    size,
    truth,
    whole_number,
)
from airflow_sqlqueue.queue.errors.bulk_action import ErrorQueueOptions
from airflow_sqlqueue.queue.purge import PurgeOptions


@pytest.mark.parametrize(
    ("read", "value", "found"),
    [
        (whole_number, None, None),
        (whole_number, "", None),
        (whole_number, "None", None),
        (whole_number, " 1000 ", 1000),
        (whole_number, 5, 5),
        (whole_number, 5.0, 5),
        (number, "0.5", 0.5),
        (truth, "True", True),
        (truth, " false ", False),
        (truth, False, False),
        (truth, "None", None),
        (size, "512 KiB", 524_288),
        (size, "16MiB", 2**24),
        (size, "1000000", 1_000_000),
        (size, 7, 7),
        (size, "", None),
        (interval, "3600", timedelta(hours=1)),
        (interval, "90s", timedelta(seconds=90)),
        (interval, "7d", timedelta(days=7)),
        (interval, 1.5, timedelta(seconds=1.5)),
        (interval, timedelta(days=2), timedelta(days=2)),
    ],
)
def test_a_text_becomes_a_value(read: Any, value: Any, found: Any) -> None:
    assert read("x", value) == found


@pytest.mark.parametrize(
    ("read", "value", "says"),
    [
        (whole_number, "many", "x is 'many': give a whole number"),
        (whole_number, 5.5, "x is '5.5': give a whole number"),
        (whole_number, True, "x is 'True': give a whole number"),
        (number, [], "give a number"),
        (truth, "yes", "x is 'yes': give True or False"),
        (truth, 1, "give True or False"),
        (size, "1.5MiB", "x takes bytes, as 1000000, 512KiB, 16MiB or 1GiB, not '1.5MiB'"),
        (size, "2MB", "takes bytes"),
        (size, "-1", "takes bytes"),
        (size, "1" * 5_000 + "MiB", "takes bytes"),
        (interval, "1 day", "give a number of seconds, or a time as 90s, 30m, 12h or 7d"),
        (interval, "inf", "too long a time"),
    ],
)
def test_other_values_are_refused(read: Any, value: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read("x", value)


class Lid:
    """Lid of a lamp."""


@dataclass(frozen=True, kw_only=True)
class LampOptions(Options):
    """Options of a lamp."""

    shade: str = option("red", "shade of the lamp", choices=("red", "green", "blue"))
    glow: str = option("off", "``off`` or ``on``", choices=("off", "on"))
    hours: float = option(1.5, "hours of light", above=0, most=1_000)
    lamps: int = option(2, "number of lamps", least=1, most=2_000, because="each takes a socket")
    most: int | None = option(None, "the most lamps", above=0)
    oil: int = option(16 * 2**20, "oil in bytes", unit=BYTES, least=1, most=2**30)
    delay: timedelta = option(timedelta(hours=36), "time before light", least=timedelta(0))
    owner: str | None = argument(None, "owner of the lamp")
    shaded: bool = argument(False, "whether it has a shade", repr=False)
    lid: Lid | None = argument(None, "lid of the lamp", repr=False)
    key: str | None = argument(None, "key of the lamp", repr=False)


NAMES = "shade, glow, hours, lamps, most, oil, delay"


def test_the_docstring_has_every_option_with_its_choices_limits_and_plain_default() -> None:
    assert (
        inspect.getdoc(LampOptions)
        == """Options of a lamp.

:param shade: shade of the lamp: ``red``, ``green`` or ``blue``.
:param glow: ``off`` or ``on``.
:param hours: hours of light; more than 0, up to 1,000.
:param lamps: number of lamps; 1 to 2,000.
:param most: the most lamps.
:param oil: oil in bytes; 1 to 1GiB, 16MiB by default.
:param delay: time before light, 36h by default.
:param owner: owner of the lamp.
:param shaded: whether it has a shade.
:param lid: lid of the lamp.
:param key: key of the lamp."""
    )
    assert LampOptions.parameter == "lamp_options"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"shade": "pink"}, "shade is 'pink': choose one of red, green, blue."),
        ({"hours": 0}, "hours must be more than 0, up to 1,000."),
        ({"hours": float("nan")}, "hours must be more than 0, up to 1,000."),
        ({"hours": 1_001}, "hours must be more than 0, up to 1,000."),
        ({"lamps": 0}, "lamps must be 1 to 2,000: each takes a socket."),
        ({"lamps": 2_001}, "lamps must be 1 to 2,000: each takes a socket."),
        ({"most": 0}, "most must be more than 0: leave it out for no limit."),
        ({"oil": 2**30 + 1}, "oil must be 1 to 1GiB."),
        ({"delay": timedelta(seconds=-1)}, "delay must be 0s or more."),
        ({"lamps": "4"}, "lamps is '4': give a value of type int."),
        ({"hours": [1]}, "hours is '[1]': give a value of type float."),
        ({"delay": 5}, "delay is a value of type int: give one of type timedelta."),
        ({"owner": 5}, "owner is a value of type int: give one of type str."),
        ({"shaded": "no"}, "shaded is a value of type str: give one of type bool."),
        ({"lid": {"a": 1}}, "lid is a value of type dict: give one of type Lid."),
    ],
)
def test_values_outside_of_choices_and_limits_are_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        LampOptions(**values)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda: ErrorQueueOptions(rate=1e-300), "rate is '1e-300'"),
        (lambda: PurgeOptions(pause=1e308), "pause is '1e\\+308'"),
        (lambda: ConsumeOptions(poll_seconds=1e10), "poll_seconds is '10000000000.0'"),
        (lambda: DrainOptions(max_seconds=float("inf")), "max_seconds is 'inf'"),
    ],
)
def test_a_wait_that_python_cannot_count_is_refused(make: Any, given: str) -> None:
    with pytest.raises(ConfigurationError, match=given + ": give a number from 0.000000001 to 1,000,000,000."):
        make()


def test_values_at_the_limits_are_taken() -> None:
    class OwnLid(Lid):
        """Lid of a class that inherits from the named one."""

    LampOptions(lid=OwnLid(), hours=2, shaded=True)
    LampOptions(shade="blue", hours=1_000, lamps=1, most=1, oil=1, delay=timedelta(0))
    LampOptions(hours=1e-9, lamps=2_000, oil=2**30)


def test_a_repr_shows_options_and_arguments_but_for_secret_ones() -> None:
    assert repr(LampOptions(key="secret")) == (
        "LampOptions(shade='red', glow='off', hours=1.5, lamps=2, most=None, oil=16777216, "
        "delay=datetime.timedelta(days=1, seconds=43200), owner=None)"
    )


def test_a_mapping_is_read() -> None:
    given = {"shade": "green", "hours": "2", "lamps": "", "oil": "3KiB", "delay": "90s", "most": None}
    assert LampOptions.of(given, owner="me") == LampOptions(
        shade="green", hours=2.0, oil=3072, delay=timedelta(seconds=90), owner="me"
    )
    assert LampOptions.of(None, most="5", owner=None) == LampOptions(most=5)
    assert LampOptions.of(LampOptions(lamps=3), most=4) == LampOptions(lamps=3, most=4)
    assert LampOptions(lamps=3, delay=timedelta(0)).changed() == {"lamps": 3, "delay": timedelta(0)}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"lamp": 1}, "lamp_options has no option 'lamp': did you mean 'lamps'?"),
        (
            {"owner": "me"},
            "lamp_options has no option 'owner': choose from shade, glow, hours, lamps, most, oil, delay.",
        ),
        ({1: 1}, "lamp_options has no option '1': choose from shade, glow, hours, lamps, most, oil, delay."),
        ({"lamps": "few"}, "lamp_options['lamps'] is 'few': give a whole number."),
        ({"shade": 1}, "lamp_options['shade'] is '1': give a text."),
        ({"most": 3}, "most is given twice, by itself and in lamp_options: give it once."),
        (["lamps"], "lamp_options is a mapping of options, not list."),
        ("lamps", "lamp_options is a mapping of options, not str."),
    ],
)
def test_mappings_that_cannot_be_used_are_refused(values: Any, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        LampOptions.of(values, most=4)
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (90, "90s"), (120, "2m"), (5_400, "90m"), (7_200, "2h"), (172_800, "2d"), (0.5, "0.5s")],
)
def test_times_are_written_in_the_largest_unit_that_divides_them(seconds: float, text: str) -> None:
    delay = LampOptions.described()[6]
    assert delay.words(timedelta(seconds=seconds)) == text
    assert delay.read(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("number", "text"), [(1, "1"), (1023, "1023"), (1024, "1KiB"), (3 * 2**20, "3MiB"), (2**30, "1GiB")]
)
def test_sizes_are_written_in_the_largest_unit_that_divides_them(number: int, text: str) -> None:
    oil = LampOptions.described()[5]
    assert oil.words(number) == text
    assert oil.read(text) == number


def test_a_meaning_is_a_sentence_of_the_help() -> None:
    assert plain("end at ``max_glow``; ``off``: now", {"max_glow": "--max-glow", "off": "off"}.__getitem__) == (
        "End at --max-glow; off: now."
    )
    assert plain("``off``: dark") == "off: dark."
