"""Gives the current price of a security and how old it is."""

import argparse
import json
import sys

from service import ask


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isin", required=True)
    given = parser.parse_args()
    print(json.dumps(ask("/quote", isin=given.isin)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
