"""Gaps of a copy: whatever order messages commit in, each number is seen once, or lies in one gap or above the mark."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from airflow_sqlqueue.queue.gaps import Gap, gaps_between, shrink
from airflow_sqlqueue.queue.window import Window

NUMBERS = st.sets(st.integers(1, 60))


@given(after=st.integers(-5, 5), seen=NUMBERS)
def test_gaps_between_are_the_numbers_that_were_not_seen(after: int, seen: set[int]) -> None:
    numbers = sorted(number for number in seen if number > after)
    gaps = gaps_between(after, numbers)
    assert [n for gap in gaps for n in range(gap.low, gap.high + 1)] == sorted(
        set(range(after + 1, max(numbers, default=after) + 1)) - set(numbers)
    )
    assert all(first.high + 1 < second.low for first, second in pairwise(gaps)), "as few as possible"


@given(seen=NUMBERS, later=NUMBERS)
def test_filled_gaps_keep_the_numbers_that_are_still_missing(seen: set[int], later: set[int]) -> None:
    gaps = gaps_between(0, sorted(seen))
    missing = {n for gap in gaps for n in range(gap.low, gap.high + 1)}
    filled, rests = shrink(gaps, sorted(later & missing))
    left = [gap for gap in gaps if gap not in filled] + rests
    assert sorted(n for gap in left for n in range(gap.low, gap.high + 1)) == sorted(missing - later)
    assert all(any(gap.low <= n <= gap.high for n in later) for gap in filled), "no other gap is written again"


@given(commits=st.permutations(range(1, 31)), aborted=st.sets(st.integers(1, 30)), steps=st.lists(st.integers(0, 9)))
def test_a_copy_sees_each_number_once(commits: list[int], aborted: set[int], steps: list[int]) -> None:
    """A model of the copy: transactions commit in any order or roll back, and parts of any size come at any time."""
    left = [number for number in commits if number not in aborted]
    visible, copied = set[int](), list[int]()
    gaps, high = list[Gap](), 0
    for step in [*steps, 40, 40, 40]:
        visible |= set(left[:step])
        left = left[step:]
        size = step % 5 + 1 if step < 40 else 40
        late = sorted(n for n in visible if any(gap.low <= n <= gap.high for gap in gaps))[:size]
        filled, rests = shrink(gaps, late)
        gaps = sorted([gap for gap in gaps if gap not in filled] + rests)
        above = sorted(n for n in visible if n > high)[:size]
        gaps += gaps_between(high, above)
        high = above[-1] if above else high
        copied += late + above
    assert sorted(copied) == sorted(visible)
    assert len(copied) == len(set(copied))


def test_the_first_gap_is_a_range_of_any_length() -> None:
    assert gaps_between(-(2**63), [7, 8, 11]) == [Gap(-(2**63) + 1, 6), Gap(9, 10)]


@given(st.sets(st.integers(1, 10_000), min_size=1, max_size=2_500))
def test_pieces_of_a_window_name_each_number_once_and_fit_in_a_statement(chosen: set[int]) -> None:
    """A statement takes 2,100 parameters, and each piece leaves room for others of its own."""
    pieces = [*Window.of(tuple(sorted(chosen))).pieces()]
    assert [number for piece in pieces for number in piece.chosen or ()] == sorted(chosen)
    for piece in pieces:
        assert len(piece.values) <= 1_000
        assert {*piece.values} == {*(piece.chosen or ())}
