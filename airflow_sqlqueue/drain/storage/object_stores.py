"""Calls to object stores: their time limits, and errors without the secrets that stores quote."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import NoReturn, TypeVar

from airflow_sqlqueue.errors import StagingError

T = TypeVar("T")

_LONGEST = 2_000
"""Characters of a text in which secrets are looked for; the rest is cut off first."""

_SECRETS = (
    (re.compile(r"\?[^\s?'\"<>]*=[^\s'\"<>]*"), "?..."),
    (re.compile(r"://[^\s/@'\":]*:[^\s/@'\"]*@"), "://...@"),
    (re.compile(r"(?i)\b(bearer|basic) [\w.~+/=-]+"), r"\1 ..."),
    (
        re.compile(
            r"(?i)(?<![\w.-])(?=[\w.-]*(?:key|secret|password|passwd|token|signature|credential|\bsig))"
            r"([\w.-]+(?:\s*=|['\"]\s*:)\s*)('[^']*'?|\"[^\"]*\"?|[^\s&;,]+)"
        ),
        r"\1...",
    ),
)
"""What quotes credentials: queries of (signed) URLs, users of URLs, authorization headers, and settings by name.

Each looks at a character a fixed number of times, however it goes on: a store's text may be anything, and rows may be
locked while it is read.
"""


def run_in_thread(call: Callable[[], T]) -> Future[T]:
    """Run ``call`` in a thread of its own, which keeps no process from ending."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="staging", daemon=True).start()
    return outcome


def call_within(call: Callable[[], T], seconds: float) -> T:
    """What ``call`` returns or raises, or :class:`TimeoutError`: then it goes on in a thread that is not waited for.

    The stores' own time limits are not enough. That of aiohttp, which s3fs, gcsfs and adlfs use, does not hold for
    sending, and is dropped by S3's answer to ``Expect: 100-continue`` if that comes late.
    """
    outcome = run_in_thread(call)
    try:
        return outcome.result(seconds)
    except FutureTimeoutError:
        if outcome.done():
            # One that the store's own library has raised.
            raise
        raise TimeoutError(f"the store did not answer for {seconds:g} seconds") from None


def raise_staging_error(what: str, error: Exception) -> NoReturn:
    """Raise a :class:`StagingError` that ``what`` failed, with the store's words as far as they hold no secret.

    ``error`` is the cause, unless a traceback of it would show one.
    """
    raise StagingError(f"{what}: {error_text(error)}.") from (error if _is_clean(error) else None)


def error_text(error: BaseException) -> str:
    """The first line of what an exception says, without secrets; its class where that is all there is."""
    strerror = getattr(error, "strerror", None)
    text = str(strerror or error)[: 2 * _LONGEST].strip().partition("\n")[0]
    text = without_secrets(text)[:300].rstrip(".")
    if not text:
        return type(error).__name__
    return text if isinstance(error, OSError) else f"{type(error).__name__}: {text}"


def without_secrets(text: str) -> str:
    """The text, or its first 2,000 characters, without what looks like credentials."""
    if len(text) > _LONGEST:
        # Not within a word, half of which might not look like a secret any more.
        text = text[:_LONGEST].rpartition(" ")[0] + " ..."
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _is_clean(error: BaseException) -> bool:
    """Whether neither the exception nor those that a traceback would show with it quote secrets, or are too long."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        following = waiting.pop()
        if following is not None and following not in seen:
            text = str(following)
            if without_secrets(text) != text:
                return False
            seen.append(following)
            waiting += [following.__cause__, following.__context__]
    return True
