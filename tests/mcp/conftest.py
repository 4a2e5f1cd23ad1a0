"""What tests of tool servers share."""

from tests.servers.oidc import oidc

__all__ = ["oidc"]
