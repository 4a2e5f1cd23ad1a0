"""What can go wrong at the web page's door, in words."""

from silas.kernel import ChannelError, ServerError


class NotLetIn(ChannelError):
    """This browser is not paired, or no longer. Run `silas devices pair` for a new link."""

    code = "E_CHANNEL_NOT_PAIRED"
    exit_code = 195


class PairingRefused(ChannelError):
    """The pairing code is wrong, used or too old. Run `silas devices pair` for a new link."""

    code = "E_CHANNEL_PAIRING"
    exit_code = 196


class CannotListen(ServerError):
    """The web page's address cannot be used. Choose another one with `silas start --port`."""

    code = "E_SERVER_ADDRESS"
    exit_code = 218
