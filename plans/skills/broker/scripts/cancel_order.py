"""Cancels an order that has not been executed."""

import argparse
import json
import sys

from service import tell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--order-id", required=True)
    given = parser.parse_args()
    print(json.dumps(tell("/orders/cancel", order_id=given.order_id)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
