from tests.web.conftest import device, place

__all__ = ["device", "place"]
