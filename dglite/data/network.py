"""Downloads, which fail within seconds where there is no connection."""

from __future__ import annotations

import socket
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_PORTS = {"http": 80, "https": 443}
_SECONDS = 2.5


class Downloader:
    """The callback of pooch, called only if a file has to be downloaded."""

    def __init__(self, progressbar: bool = True, verify_ssl: bool = True) -> None:
        self._progressbar, self._verify = progressbar, verify_ssl

    def __call__(self, url: str, output_file: Any, source: Any) -> None:
        """Write the content at ``url`` to a file; raise ``OSError`` or ``ValueError`` if that fails."""
        import pooch  # only a download needs it, and it imports an HTTP client

        require_connection(url)
        pooch.HTTPDownloader(progressbar=self._progressbar, verify=self._verify)(url, output_file, source)


def require_connection(url: str) -> None:
    """Raise ``ConnectionError`` unless the host of a web address, or the proxy in between, answers within 2.5 seconds.

    Addresses of other kinds pass.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy and not proxy_bypass(parts.hostname or ""):
        parts = urlsplit(proxy if "//" in proxy else f"{parts.scheme}://{proxy}")
    if parts.scheme not in _PORTS:
        return
    outcome: list[OSError | None] = []
    # In a thread, since the time that it takes to look a name up has no limit that can be set.
    probe = Thread(target=_try, args=((parts.hostname or "", parts.port or _PORTS[parts.scheme]), outcome), daemon=True)
    probe.start()
    probe.join(_SECONDS)
    if outcome != [None]:
        why = outcome[0] if outcome else f"no answer in {_SECONDS} seconds"
        raise ConnectionError(f"there is no connection to {parts.hostname} ({why})")


def _try(address: tuple[str, int], outcome: list[OSError | None]) -> None:
    """Append None if the host can be reached by one of its addresses, IPv4 first, or else the last error."""
    try:
        addresses = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        for family, _, _, _, place in sorted(addresses, key=lambda entry: entry[0] != socket.AF_INET):
            failed = _failure(family, place)
            if failed is None:
                break
        outcome.append(failed)
    except OSError as error:
        outcome.append(error)


def _failure(family: int, place: Any) -> OSError | None:
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(_SECONDS)
        try:
            connection.connect(place)
        except OSError as error:
            return error
    return None
