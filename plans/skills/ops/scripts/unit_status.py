"""Says whether a unit runs, with its last lines."""

import argparse
import json
import sys

from service import ask


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unit", required=True)
    given = parser.parse_args()
    print(json.dumps(ask("/status", unit=given.unit)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
