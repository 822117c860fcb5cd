from __future__ import annotations

import pytest

from airflow_sqlqueue.messages.envelope.typed_headers import Content
from airflow_sqlqueue.messages.message import BLANKS, HeaderNames, first_type

GENERIC = "Ns.Evt`1[[System.Int32, mscorlib, Version=4.0.0.0]]"


@pytest.mark.parametrize(
    ("enclosed", "names"),
    [
        ("A.B, C, Version=1", ["A.B"]),
        ("A.B;C.D", ["A.B", "C.D"]),
        (" A.B , C;E", ["A.B", "E"]),
        ("A.B", ["A.B"]),
        ("", []),
        (" ; , Shop;;A.B", ["A.B"]),
        (f"{GENERIC}, Shop, Version=1.0.0.0;Ns.Base, Shop", [GENERIC, "Ns.Base"]),
        (f"Ns.Of`2[[{GENERIC}, Shop],[Shop.B[], Shop]], Shop", [f"Ns.Of`2[[{GENERIC}, Shop],[Shop.B[], Shop]]"]),
        (
            "Shop.Many`1[[Shop.Order, Shop]], Shop;Ns.Pair`2[[A, X],[B, Y]],Shop",
            ["Shop.Many`1[[Shop.Order, Shop]]", "Ns.Pair`2[[A, X],[B, Y]]"],
        ),
        ("A], B", ["A]"]),
        ("A[, B", ["A[, B"]),
    ],
)
def test_a_full_name_has_its_arguments_and_not_its_assembly(enclosed: str, names: list[str]) -> None:
    assert first_type(enclosed) == next(iter(names), None)
    assert Content.of({HeaderNames.ENCLOSED_MESSAGE_TYPES: enclosed}).message_types == tuple(names)


@pytest.mark.parametrize("headers", [{}, {HeaderNames.ENCLOSED_MESSAGE_TYPES: None}])
def test_no_header_is_no_type(headers: dict[str, str | None]) -> None:
    assert first_type(headers.get(HeaderNames.ENCLOSED_MESSAGE_TYPES)) is None
    assert Content.of(headers).message_types == ()


def test_blanks_end_where_they_end() -> None:
    blanks = {code for first, last in BLANKS for code in range(first, last + 1)}
    beside = {code for first, last in BLANKS for code in (first - 1, last + 1)} - blanks - {-1}
    assert [code for code in blanks if first_type(f"A{chr(code)}") != "A"] == []
    assert [code for code in beside if first_type(f"A{chr(code)}") != f"A{chr(code)}"] == []
