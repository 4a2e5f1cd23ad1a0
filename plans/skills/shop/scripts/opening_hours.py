"""Says when the shop is open."""

import argparse
import json
import sys

from service import ask


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    print(json.dumps(ask("/hours")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
