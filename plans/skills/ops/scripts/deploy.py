"""Rolls an image out to one environment, by its digest."""

import argparse
import json
import sys

from service import tell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", required=True)
    parser.add_argument("--digest", required=True)
    given = parser.parse_args()
    print(json.dumps(tell("/deploy", environment=given.environment, digest=given.digest)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
