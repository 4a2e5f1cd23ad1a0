"""The clock that the items of these tests were made by."""

import pytest

from silas.testing import FakeClock
from tests.context.making import NOW


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)
