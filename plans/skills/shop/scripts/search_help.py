"""Searches the help pages."""

import argparse
import json
import sys

from service import ask


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", required=True)
    given = parser.parse_args()
    print(json.dumps(ask("/help", query=given.query)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
