"""The only way out of a sandbox: the hosts that a plan lists, and the account of a connection.

`hosts` says how hosts are written and which addresses are public. `proxy` carries requests out.
`namespace` puts the listening sockets into the network namespace of a sandbox. `accounts` describes
an account with somebody else, and `broker` lets code use one without its credential:
`mail_sessions` and `smtp_relay` for mail, `oauth` for tokens. Those are imported by their own
names: most commands of the command line never need them.
"""

from silas.egress.accounts import (
    BrokeredAccount,
    CredentialRef,
    Endpoint,
    Narrowing,
    OAuthRegistration,
    OAuthServer,
    Tier,
)
from silas.egress.hosts import Hosts, ListedHost, in_words, named
from silas.egress.namespace import PORT, listen_in_namespace_of
from silas.egress.proxy import EgressLimits, EgressProxy, HostUse, PublicNetwork, WayOut

__all__ = [
    "PORT",
    "BrokeredAccount",
    "CredentialRef",
    "EgressLimits",
    "EgressProxy",
    "Endpoint",
    "HostUse",
    "Hosts",
    "ListedHost",
    "Narrowing",
    "OAuthRegistration",
    "OAuthServer",
    "PublicNetwork",
    "Tier",
    "WayOut",
    "in_words",
    "listen_in_namespace_of",
    "named",
]
