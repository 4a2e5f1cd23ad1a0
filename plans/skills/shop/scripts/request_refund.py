"""Asks for a refund; a person decides about it."""

import argparse
import json
import sys

from service import tell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--order-id", required=True)
    parser.add_argument("--email", required=True)
    parser.add_argument("--refund-eur", required=True, type=float)
    given = parser.parse_args()
    print(
        json.dumps(
            tell(
                "/refunds", order_id=given.order_id, email=given.email, refund_eur=given.refund_eur
            )
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
