"""Calls to object stores: their time limits, and errors without the secrets that stores quote."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import NoReturn, TypeVar

from airflow_sqlqueue.errors import StagingError
from airflow_sqlqueue.threads import run_in_thread

T = TypeVar("T")

_LONGEST = 2_000
"""Maximum length of a text that is searched for secrets; the rest is cut off first."""

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
"""Patterns of credentials: queries of (signed) URLs, users of URLs, authorization headers, and settings by name.

Each pattern reads a character a fixed number of times, whatever follows: a store's text may be anything, and rows may
be locked while it is searched.
"""


def call_within(call: Callable[[], T], seconds: float) -> T:
    """Return or raise the outcome of ``call``, or :class:`TimeoutError`: then ``call`` continues in its thread.

    The stores' own time limits are not enough. The limit of aiohttp, which s3fs, gcsfs and adlfs use, does not cover
    sending, and ends with a late answer of S3 to ``Expect: 100-continue``.
    """
    outcome = run_in_thread(call, "staging")
    try:
        return outcome.result(seconds)
    except FutureTimeoutError:
        if outcome.done():
            # The store's own library has raised it.
            raise
        raise TimeoutError(f"the store did not answer for {seconds:g} seconds") from None


def raise_staging_error(what: str, error: Exception) -> NoReturn:
    """Raise a :class:`StagingError` that ``what`` failed, with the store's text without secrets.

    ``error`` is the cause, unless its traceback would show a secret.
    """
    raise StagingError(f"{what}: {error_text(error)}.") from (error if _is_clean(error) else None)


def error_text(error: BaseException) -> str:
    """Return the first line of an exception's text, without secrets; its class if the text is empty."""
    strerror = getattr(error, "strerror", None)
    text = str(strerror or error)[: 2 * _LONGEST].strip().partition("\n")[0]
    text = without_secrets(text)[:300].rstrip(".")
    if not text:
        return type(error).__name__
    return text if isinstance(error, OSError) else f"{type(error).__name__}: {text}"


def without_secrets(text: str) -> str:
    """Return the text, at most its first 2,000 characters, without anything that looks like credentials."""
    if len(text) > _LONGEST:
        # Cut between words: half of a secret might not look like one.
        text = text[:_LONGEST].rpartition(" ")[0] + " ..."
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _is_clean(error: BaseException) -> bool:
    """Return whether the exception, and those in its traceback, have short texts without secrets."""
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
