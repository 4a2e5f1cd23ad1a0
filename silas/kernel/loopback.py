"""Whether an address can only be this machine."""

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address. A name that is not known counts as no."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_loopback_url(url: str) -> bool:
    """Whether the address is one of this machine's own."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
