"""Says whether an order belongs to an e-mail address."""

import argparse
import json
import sys

from service import ask


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--order-id", required=True)
    parser.add_argument("--email", required=True)
    given = parser.parse_args()
    print(json.dumps(ask("/orders/verify", order_id=given.order_id, email=given.email)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
