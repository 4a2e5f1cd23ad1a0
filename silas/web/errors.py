"""What can go wrong at the web page's door, in words."""

from silas.kernel import ChannelError, ServerError


class NotLetIn(ChannelError):
    """This browser is not paired, or no longer. Run `silas devices pair` for a new link."""

    code = "E_CHANNEL_NOT_PAIRED"


class PairingRefused(ChannelError):
    """The pairing code is wrong, used or too old. Run `silas devices pair` for a new link."""

    code = "E_CHANNEL_PAIRING"


class CannotListen(ServerError):
    """The web page's address cannot be used. Choose another one with `silas start --port`."""

    code = "E_SERVER_ADDRESS"


class CertificateUnusable(ServerError):
    """The certificate of the web page cannot be used. The message says what is wrong with it."""

    code = "E_SERVER_CERTIFICATE"


class InvalidRequest(ServerError):
    """The request cannot be understood. The message says which part of it, and what is right."""

    code = "E_SERVER_BAD_REQUEST"


class TooManyConnections(ServerError):
    """Too many commands talk to Silas at once. Wait for one of them to end."""

    code = "E_SERVER_CROWDED"


class RequestTimedOut(ServerError):
    """The request took too long and was given up. What it had begun may have happened."""

    code = "E_SERVER_TIMED_OUT"


class SocketNotMade(ServerError):
    """The control socket cannot be made. Check the data directory with `silas doctor`."""

    code = "E_SERVER_SOCKET"
