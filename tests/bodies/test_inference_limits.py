"""Limits of inference: patterns of types, bounded statistics, and the warnings before a limit is reached."""

from __future__ import annotations

import pytest

from airflow_sqlqueue.bodies.patterns import TypePatterns
from airflow_sqlqueue.bodies.warnings import SchemaWarning
from airflow_sqlqueue.errors import ConfigurationError


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        (None, "Shop.Order", True),
        ("Shop.*", "Shop.Order", True),
        ("shop.*", "Shop.Order", True),
        ("Shop.*", "Shopping.Order", False),
        ("Shop", "Shop.Order", False),
        ("*", "", True),
        (["Shop.*", "!Shop.Internal.*"], "Shop.Internal.Tick", False),
        (["Shop.*", "!Shop.Internal.*"], "Shop.Order", True),
        (["!*.Tick"], "Shop.Tick", False),
        (["!*.Tick"], "Shop.Order", True),
        ("*Order*Placed*", "Shop.OrderWasPlacedV2", True),
        ("a*a", "a", False),
        ("Shop.Wrapped`1[[*", "Shop.Wrapped`1[[Shop.Order, Shop]]", True),
        ("Shop.?rder", "Shop.Order", False),
        (["Billing.*", "Shop.*"], "Shop.Order", True),
    ],
)
def test_patterns_of_types(patterns: object, name: str, matches: bool) -> None:
    assert TypePatterns.of(patterns).matches(name) is matches  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["", "!", " ", [], [7], 7, ["Shop.*", ""]])
def test_patterns_that_mean_nothing_are_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match="Shop"):
        TypePatterns.of(given)  # type: ignore[arg-type]


def test_a_warning_is_one_sentence_with_names_in_quotes() -> None:
    said = str(SchemaWarning("new fields", "Shop.\x1bOrder", 1_592, "Quantities.0f"))
    assert (
        said
        == "1,592 fields of 'Shop.\\x1bOrder' are new, the first one is 'Quantities.0f'. A dictionary may need a hint."
    )
