text; many=$l
text; small=$l
text; pieces=$l
text; rest=$l
text; parent=$l
umask 077
d=
trap 'if [ -n "$d" ]; then rm -rf -- "$d"; fi' EXIT
trap 'exit 1' HUP INT TERM PIPE
d=$(mktemp -d "${parent:-${TMPDIR:-/tmp}}/verisum-bench.XXXXXXXXXX") || exit 1
mkdir "$d/small" || exit 1
printf '%64d' 0 >"$d/tiny" || exit 1
k=0
while [ "$k" -lt "$many" ]; do
  printf "%${small}d" "$k" >"$d/small/$k" || exit 1
  k=$((k + 1))
done
k=0
while [ "$k" -lt "$pieces" ]; do
  printf '%1048576d' "$k" || exit 1
  k=$((k + 1))
done >"$d/large" || exit 1
if [ "$rest" -gt 0 ]; then printf "%${rest}d" 0 >>"$d/large" || exit 1; fi
printf 'made %s\n' "$d"
while IFS= read -r l; do :; done
