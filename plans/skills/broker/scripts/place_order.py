"""Places a limit order."""

import argparse
import json
import sys

from service import tell


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isin", required=True)
    parser.add_argument("--side", required=True)
    parser.add_argument("--amount-eur", required=True, type=float)
    parser.add_argument("--order-type", required=True)
    parser.add_argument("--limit-price", required=True, type=float)
    given = parser.parse_args()
    print(
        json.dumps(
            tell(
                "/orders",
                isin=given.isin,
                side=given.side,
                amount_eur=given.amount_eur,
                order_type=given.order_type,
                limit_price=given.limit_price,
            )
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
