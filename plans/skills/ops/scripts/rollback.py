"""Goes back to the image before."""

import argparse
import json
import sys

from service import tell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", required=True)
    given = parser.parse_args()
    print(json.dumps(tell("/rollback", environment=given.environment)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
