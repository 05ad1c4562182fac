text; left=$l
while [ "$left" -gt 0 ]; do
  left=$((left - 1))
  text
  [ ! -f "$l" ] || set -- "$@" "$l"
done
[ "$#" -eq 0 ] || cat -- "$@"
