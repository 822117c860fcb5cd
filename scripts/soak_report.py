"""Report of the soak: checks of what was seen, as a table for people and as JSON for machines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table
from soak_account import Ledgers, Verdict
from soak_faults import CUTS, RESTARTS, Faults
from soak_processes import Reports
from soak_samples import Growth
from soak_setting import AUDIT, NOTES

GROWTH = 1.1
"""Largest ratio of growth that passes."""

SPARE_MEMORY, SPARE_DESCRIPTORS = 4.0, 3.0
"""MiB and descriptors that a process may have more at the end in any case: connections come and go."""


CACHES, OPEN_FILES = 64.0, 1_000.0
"""MiB of caches that a process of PostgreSQL fills for the clients it serves, and files that it keeps open
(``max_files_per_process``), at the most."""

POSTGRESQL = "server, PostgreSQL"
"""Processes of PostgreSQL in fakemssql. Their caches fill up to limits of their own."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a soak.

    :param sampled: the processes whose memory was read, however short they lived.
    :param restarts: whether the server is one that is restarted.
    :param warm: whether the load was long enough for growth to be judged.
    """

    reports: Reports
    places: Mapping[str, int]
    verdict: Verdict
    ledgers: Ledgers
    sampled: Collection[str]
    growth: Sequence[Growth]
    faults: Faults
    restarts: bool
    warm: bool


@dataclass(frozen=True)
class Check:
    """A figure, and whether it passes; without a bound it is only reported."""

    name: str
    figure: str
    bound: str = ""
    passed: bool = True


def checks(outcome: Outcome) -> list[Check]:
    """All figures, in the order of the table."""
    return [*_account(outcome), *_faults(outcome), *_speed(outcome), *_growth(outcome)]


def _account(outcome: Outcome) -> list[Check]:
    verdict, ledgers, counts = outcome.verdict, outcome.ledgers, outcome.reports.counts
    lost_answers = f"{verdict.unknown_there:,} there, {verdict.unknown_absent:,} not"
    found = [Check("sent", f"{verdict.sent:,}", "at least 1", verdict.sent > 0)]
    found += [Check(f"  {place}", f"{number:,}") for place, number in sorted(outcome.places.items())]
    found += [Check(f"  expired, of {queue}", f"{number:,}") for queue, number in sorted(verdict.expired.items())]
    found.append(Check("answer lost", lost_answers))
    for name in ("lost", "doubled", "changed", "made_up"):
        number = getattr(verdict, name)
        found.append(Check(name.replace("_", " "), f"{number:,}", "0", not number))
    found.append(Check("sends that are there in part", f"{verdict.torn}", "0", not verdict.torn))
    found.append(Check("ledger against batches", f"{ledgers.differences}", "0", not ledgers.differences))
    expired, most = verdict.expired[AUDIT], verdict.expired[AUDIT] + verdict.perhaps_expired[AUDIT]
    bound = f"{expired:,}" if most == expired else f"{expired:,} to {most:,}"
    found.append(Check("dropped by drains", f"{ledgers.dropped:,}", bound, expired <= ledgers.dropped <= most))
    purged, most = counts["messages purged"], verdict.expired[NOTES] + verdict.perhaps_expired[NOTES]
    found.append(Check("purged, of known answers", f"{purged:,}", f"at most {most:,}", purged <= most))
    return found


def _faults(outcome: Outcome) -> list[Check]:
    counts, faults = outcome.reports.counts, outcome.faults
    errors = sum(number for name, number in counts.items() if name.startswith("error "))
    restarts = RESTARTS if outcome.restarts else 0
    return [
        Check("restarts", f"{faults.restarts}", f"{restarts}", faults.restarts == restarts),
        Check("cuts", f"{faults.cuts}", f"{CUTS}", faults.cuts == CUTS),
        Check("errors, tried again", f"{errors:,}"),
        Check("sensors that fired", f"{counts['sensors met']:,}", "at least 1", counts["sensors met"] > 0),
        Check("sensors that failed", f"{counts['sensors failed']}", "0", not counts["sensors failed"]),
        *(Check(name, f"{counts[name]}", "1", counts[name] == 1) for name in ("poller threads", "poller connections")),
    ]


def _speed(outcome: Outcome) -> list[Check]:
    found = []
    for name, seconds in (("send", outcome.reports.send_seconds), ("look at page", outcome.reports.look_seconds)):
        p50, p99 = quantile(seconds, 0.5), quantile(seconds, 0.99)
        figure = f"{p50:,.0f} and {p99:,.0f} ms" if seconds else "none"
        found.append(Check(f"p50 and p99 of a {name}", figure, "at least 1", bool(seconds)))
    return found


def _growth(outcome: Outcome) -> list[Check]:
    """Return the worst process of each role, in the second half of the load."""
    groups: dict[str, list[Growth]] = defaultdict(list)
    for each in outcome.growth:
        groups[each.name.rstrip(" 0123456789")].append(each)
    found = []
    for name, group in groups.items():
        memory = [(each.memory, each.memory_ratio) for each in group]
        descriptors = [(each.descriptors, each.descriptors_ratio) for each in group]
        spare_memory, spare = (CACHES, OPEN_FILES) if name == POSTGRESQL else (SPARE_MEMORY, SPARE_DESCRIPTORS)
        found.append(_worst(f"memory: {name}", memory, spare_memory, " MiB", warm=outcome.warm))
        found.append(_worst(f"descriptors: {name}", descriptors, spare, "", warm=outcome.warm))
    return found


def _worst(name: str, levels: Sequence[tuple[float, float]], spare: float, unit: str, *, warm: bool) -> Check:
    def excess(found: tuple[float, float]) -> float:
        level, ratio = found
        return level * (ratio - 1) / max(spare, level * (GROWTH - 1))

    level, ratio = worst = max(levels, key=excess)
    bound = f"x {max(GROWTH, 1 + spare / max(level, 1)):.2f}" if warm else ""
    return Check(name, f"{level:,.0f}{unit} x {ratio:.2f}", bound, not warm or excess(worst) <= 1)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values is, in milliseconds; 0 of none."""
    ordered = sorted(values)
    return 1_000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def table(found: Sequence[Check]) -> Table:
    table = Table("soak", "figure", "bound", "", width=80)
    for check in found:
        verdict = "" if not check.bound else "ok" if check.passed else "FAILED"
        table.add_row(check.name, check.figure, check.bound, verdict, style="" if check.passed else "red")
    return table


def figures(found: Sequence[Check], outcome: Outcome) -> dict[str, Any]:
    """Figures as plain JSON values."""
    reports = outcome.reports
    seconds = {"send": reports.send_seconds, "look": reports.look_seconds}
    return {
        "checks": [asdict(check) for check in found],
        "counts": dict(sorted(reports.counts.items())),
        "places": dict(outcome.places),
        "verdict": dict(vars(outcome.verdict)),
        "milliseconds": {
            name: {"p50": round(quantile(each, 0.5), 1), "p99": round(quantile(each, 0.99), 1)}
            for name, each in seconds.items()
        },
        "sampled": sorted(outcome.sampled),
        "growth": [asdict(each) for each in outcome.growth],
    }
