"""Whether a failed connection failed because the server could not prove who it is."""

import ssl


def is_tls_failure(error: BaseException) -> bool:
    """Look through the causes for a certificate or handshake that did not hold."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(current):
            return True
        current = current.__cause__ or current.__context__
    return False
