"""Download files whose SHA-256 is known, with limits of size and time, retries and checks.

We do not use pooch. It limits neither size nor time, and it retries even if the file does not exist.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpobench_nmt.core.system.errors import RunError, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests


@dataclass(frozen=True)
class Limits:
    """The limits of a download.

    Attributes:
        max_bytes: a file larger than this is refused while it arrives.
        connect_s, read_s: seconds to wait for a connection, and for the next bytes.
        total_s: seconds for one try at one file, so that we give up on a server that sends byte by byte.
        tries: total number of tries for a file.
        pause_s: seconds to wait before the second try; doubled before each further try.
    """

    max_bytes: int = 4 * 2**20
    connect_s: float = 10.0
    read_s: float = 20.0
    total_s: float = 60.0
    tries: int = 4
    pause_s: float = 0.5


DEFAULT_LIMITS = Limits()
# Extra time after the deadline. A file whose last part is just arriving is judged by what arrives.
_LAST_PART_SECONDS = 0.2
_MOST_REDIRECTS = 5
# With one of these encodings, 64 KiB can decode to 64 MiB. With several in a row, the size has no bound.
_ENCODINGS = ("", "identity", "gzip", "deflate")


class _Unusable(Exception):
    """The response is not the file. Another try may succeed."""


class _Refused(Exception):
    """The response is refused. Another try would not help."""


def download(url: str, sha256: str | None, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """The content at url; RunError with the reason of the last try if it cannot be downloaded.

    Without a hash, the caller must check the content. Some archives have no stable hash, because a host may
    compress them again.
    """
    import requests

    with requests.Session() as http:
        http.max_redirects = _MOST_REDIRECTS
        reason = ""
        for attempt in range(limits.tries):
            if attempt:
                time.sleep(limits.pause_s * 2 ** (attempt - 1))
            try:
                return _within(limits.total_s, lambda: _fetch_once(http, url, sha256, limits))
            except _Unusable as error:
                reason = str(error)
            except requests.HTTPError as error:
                status = error.response.status_code
                reason = f"the server answered {status} {error.response.reason}".rstrip()
                if 400 <= status < 500 and status not in (408, 429):
                    break
            except requests.ConnectTimeout:
                reason = f"no connection within {limits.connect_s:g} s"
            except requests.Timeout:
                reason = f"no answer within {limits.read_s:g} s"
            except requests.ConnectionError as error:
                reason = f"the connection failed ({type(error.args[0] if error.args else error).__name__})"
            except requests.TooManyRedirects:
                reason = f"the server redirects more than {_MOST_REDIRECTS} times"
                break
            except requests.exceptions.InvalidSchema:  # such as file:
                reason = "the server redirects to an address that is not on the web"
                break
            except _Refused as error:
                reason = str(error)
                break
            except requests.RequestException as error:
                reason = f"{type(error).__name__}: {error}"
    advice = "Try again later, or use a folder with the files: --from."
    raise RunError(f"{url}: {reason}. Nothing was installed. {advice}")


def _within(seconds: float, fetch: Callable[[], bytes]) -> bytes:
    """What `fetch` returns or raises; _Unusable if it takes longer than this.

    A server that sends its headers byte by byte can keep requests waiting forever, because each byte restarts
    the timeout. So the try runs in a thread, which is abandoned at the deadline.
    """
    outcome: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put(fetch())
        except Exception as error:
            outcome.put(error)

    threading.Thread(target=run, daemon=True).start()
    found: bytes | Exception = _Unusable(f"the file did not arrive within {seconds:g} s")
    with contextlib.suppress(queue.Empty):
        found = outcome.get(timeout=seconds + _LAST_PART_SECONDS)
    if isinstance(found, Exception):
        raise found
    return found


def _fetch_once(http: requests.Session, url: str, sha256: str | None, limits: Limits) -> bytes:
    from urllib3.exceptions import HTTPError, ReadTimeoutError

    deadline = time.monotonic() + limits.total_s
    digest, parts, size = hashlib.sha256(), [], 0
    with http.get(url, stream=True, timeout=(limits.connect_s, limits.read_s)) as response:
        response.raise_for_status()
        secure = [step.url.startswith("https:") for step in [*response.history, response]]
        if url.startswith("https:") and not all(secure):
            raise _Refused("the server redirects to an address without encryption")
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in _ENCODINGS:
            raise _Refused(f"the server encodes the file as {shortened(encoding)}")
        try:
            # read1 returns the bytes that have arrived. A call that waits for a full buffer could miss the
            # deadline if the server sends byte by byte.
            while part := response.raw.read1(64 * 1024, decode_content=True):
                size += len(part)
                if size > limits.max_bytes:
                    raise _Unusable(f"the file is larger than {limits.max_bytes:,} bytes")
                if time.monotonic() > deadline:
                    raise _Unusable(f"the file did not arrive within {limits.total_s:g} s")
                digest.update(part)
                parts.append(part)
        except ReadTimeoutError:
            raise _Unusable(f"no answer within {limits.read_s:g} s") from None
        except HTTPError:
            raise _Unusable(f"the connection broke after {size:,} bytes") from None
        expected = response.headers.get("Content-Length", "")
        if expected.isdigit() and "Content-Encoding" not in response.headers and size < int(expected):
            raise _Unusable(f"the file was cut short ({size:,} of {int(expected):,} bytes)")
    if sha256 is not None and digest.hexdigest() != sha256:
        raise _Unusable(f"the file has SHA-256 {digest.hexdigest()[:12]}… instead of {sha256[:12]}…")
    return b"".join(parts)
