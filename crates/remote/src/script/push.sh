text; algorithm=$l
text; size=$l
text; sent=$l
text; unpack=$l
umask 077
d=
trap 'if [ -n "$d" ]; then rm -rf -- "$d"; fi' EXIT
trap 'exit 1' HUP INT TERM PIPE
no() { printf 'no %s\0' "$1"; rm -rf -- "$d"; d=; script; eval "$v"; exit; }
for t in "${TMPDIR:-/tmp}" /var/tmp /dev/shm; do
  d=$(mktemp -d "$t/verisum.XXXXXXXXXX" 2>/dev/null) || { d=; continue; }
  if { printf '#!/bin/sh\n' > "$d/verisum" && chmod 700 "$d/verisum" && "$d/verisum"; } 2>/dev/null; then break; fi
  rm -rf -- "$d"; d=
done
if [ -z "$d" ]; then head -c "$sent" > /dev/null; no 'no private directory for programs can be made'; fi
e=$({ head -c "$sent" | { $unpack > "$d/verisum" || { cat > /dev/null; false; }; }; } 2>&1) || no "it cannot be stored: $e"
a=$(wc -c < "$d/verisum")
if [ "$a" -ne "$size" ]; then no 'it arrives damaged'; fi
{ a=$(printf 'test\0%s\0' "$algorithm" | "$d/verisum" remote-serve 2>&1); } 2>/dev/null
case $a in verisum-remote*) ;; *) no "it does not run there: $a" ;; esac
judge "$a" "$a" "$a" 'verisum-remote 1' || no 'it gives wrong digests there, or none'
printf 'yes\0'
"$d/verisum" remote-serve --remove "$d"
