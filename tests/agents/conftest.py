"""The containers of the sandbox's own tests."""

from tests.sandbox.installed import container_image, container_socket

__all__ = ["container_image", "container_socket"]
