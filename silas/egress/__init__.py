"""The only way out of a sandbox: the hosts that a plan lists, and no address that is not public.

`hosts` says how hosts are written and which addresses are public. `proxy` carries requests out.
`namespace` puts the proxy's listening socket into the network namespace of a sandbox.
"""

from silas.egress.hosts import Hosts, ListedHost, in_words, named
from silas.egress.namespace import PORT, listen_in_namespace_of
from silas.egress.proxy import EgressLimits, EgressProxy, HostUse, PublicNetwork, WayOut

__all__ = [
    "PORT",
    "EgressLimits",
    "EgressProxy",
    "HostUse",
    "Hosts",
    "ListedHost",
    "PublicNetwork",
    "WayOut",
    "in_words",
    "listen_in_namespace_of",
    "named",
]
