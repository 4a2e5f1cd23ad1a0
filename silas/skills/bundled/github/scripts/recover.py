"""Signs in anew: an outage may be over. A token that does not hold any more needs the owner."""

from collections.abc import Mapping
from typing import Any

from lifecycle import answer, look_inside


def recover(_request: Mapping[str, Any]) -> dict[str, Any]:
    look_inside()
    return {"success": True}


if __name__ == "__main__":
    answer(recover)
