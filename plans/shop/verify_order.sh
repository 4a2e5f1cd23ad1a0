# Says "verified" if an order and its e-mail address are a line of orders.txt. It runs in the sandbox, in
# the directory `gates` of the data directory; what a visitor says reaches it as variables only.
pair="$GATE_ARG_ORDER_ID $GATE_ARG_EMAIL"
case "$pair" in
  *"
"*) exit 1 ;;
  SH-*" "*@*) ;;
  *) exit 1 ;;
esac
grep -qxF -- "$pair" orders.txt && echo verified
