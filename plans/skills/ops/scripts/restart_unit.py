"""Restarts one unit."""

import argparse
import json
import sys

from service import tell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unit", required=True)
    given = parser.parse_args()
    print(json.dumps(tell("/restart", unit=given.unit)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
