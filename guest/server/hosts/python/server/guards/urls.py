"""Addresses that a caller may name."""
import ipaddress
import re
from urllib.parse import urlsplit

from .._denied import PolicyDenied

_ODD = re.compile(r"[\x00-\x20\x7f]")


def _is_local(host):
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_private or address.is_link_local or address.is_unspecified


def _is_private_only(host):
    """Private, but neither this machine nor its link."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_private and not (address.is_loopback or address.is_link_local or address.is_unspecified)


def check_url(url, *, allow_private=False):
    """`url` when it is http or https and names no address of this machine or network."""
    try:
        if not isinstance(url, str) or _ODD.search(url):
            raise ValueError("blanks or control characters")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("want http or https, a host and a port that is not 0")
    except ValueError as exc:
        raise PolicyDenied("url_invalid", f"Invalid URL: {exc}", status=400, error_type="ValueError") from None
    if _is_local(parts.hostname) and not (allow_private and _is_private_only(parts.hostname)):
        raise PolicyDenied("url_denied", "The address belongs to this machine or a private network")
    return url
