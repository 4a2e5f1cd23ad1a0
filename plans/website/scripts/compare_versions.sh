# Succeeds if both hosts answer with the same version.
set -eu
first=$(curl -fsS "http://$1/version")
second=$(curl -fsS "http://$2/version")
echo "$1: $first, $2: $second"
test -n "$first" && test "$first" = "$second"
