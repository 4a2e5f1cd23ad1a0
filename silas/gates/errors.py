"""What can go wrong with gates before they decide anything."""

from silas.kernel import GateError


class GatesNotLoaded(GateError):
    """A gate cannot be used as it is written. Run `silas gates check` to see every problem."""

    code = "E_GATE_NOT_LOADED"
    exit_code = 91


class CustomerContextRefused(GateError):
    """A customer's file cannot be trusted. Make it and its directory writable by Silas alone."""

    code = "E_GATE_CUSTOMER"
    exit_code = 92


class GateInputInvalid(GateError):
    """This cannot be put before the gates. Give text in UTF-8, and arguments as a JSON object."""

    code = "E_GATE_INPUT"
    exit_code = 93
