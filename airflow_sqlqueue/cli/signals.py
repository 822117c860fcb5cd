"""Handlers of signals for a part of a command."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def on_signals(handler: Callable[[int, FrameType | None], object], *numbers: int) -> Iterator[None]:
    """Handle the signals by a function during the block. A handler that replaced it meanwhile stays."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, handled in before.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, handled)
