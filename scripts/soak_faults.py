"""Faults of the soak, at moments that its seed chooses: restarts of the server, and cuts of its connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from fakemssql import FakeServer
from tests.faults.proxy import MOMENTS, Proxy

RESTARTS, CUTS = 2, 10
COMMITS = 3
"""Transactions that a cut meets in their COMMIT."""


@dataclass(frozen=True)
class Fault:
    at: float
    name: str
    happen: Callable[[], None]


class Faults:
    """Faults in their order, one after the other, in a thread.

    The restarts are in the first half of the load, the first of them a kill. Of the cuts every other one meets COMMITs:
    their requests, or their answers, are lost. The others meet all connections at once.
    """

    def __init__(self, server: FakeServer | None, proxy: Proxy, seconds: float, seed: int) -> None:
        self._server, self._proxy = server, proxy
        self._chance = Random(f"{seed} faults")  # noqa: S311 - repeatable on purpose
        self.restarts = self.cuts = self.cut_links = 0
        self.failure: BaseException | None = None
        self.is_away = threading.Event()
        self._ended = threading.Event()
        self._waiting = sorted(self._plan(seconds), key=lambda fault: fault.at)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _plan(self, seconds: float) -> list[Fault]:
        cuts = [self._cut_all, self._cut_commits] * (CUTS // 2)
        faults = [
            Fault(seconds * (number + self._chance.uniform(0.1, 0.9)) / CUTS, "cut", cut)
            for number, cut in enumerate(cuts)
        ]
        if self._server is not None:
            for number in range(RESTARTS):
                at = seconds * (0.12 + 0.2 * number + self._chance.uniform(0, 0.1))
                faults.append(Fault(at, "restart", self._kill if number == 0 else self._restart))
        return faults

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Let what is left not happen; return whether the present one has come to its end."""
        self._ended.set()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            for fault in self._waiting:
                if self._ended.wait(max(0.0, began + fault.at - time.monotonic())):
                    return
                fault.happen()
        except BaseException as error:
            self.failure = error

    def _cut_all(self) -> None:
        links = self._proxy.links
        for link in links:
            link.cut()
        self.cuts, self.cut_links = self.cuts + 1, self.cut_links + len(links)

    def _cut_commits(self) -> None:
        self._proxy.set_trap("COMMIT TRANSACTION", self._chance.choice(MOMENTS), times=COMMITS)
        self.cuts, self.cut_links = self.cuts + 1, self.cut_links + COMMITS

    def _kill(self) -> None:
        assert self._server is not None
        self._server.kill()
        self._away_and_back(self._server.start)

    def _restart(self) -> None:
        assert self._server is not None
        self._away_and_back(self._server.restart)

    def _away_and_back(self, back: Callable[[], None]) -> None:
        self.is_away.set()
        time.sleep(self._chance.uniform(0, 2))
        back()
        self.restarts += 1
        self.is_away.clear()
