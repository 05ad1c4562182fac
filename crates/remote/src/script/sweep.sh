text; left=$l
while [ "$left" -gt 0 ]; do
  left=$((left - 1))
  text
  # The number of the process that makes the file, which may still be at work.
  p=${l##*/.verisum-copy-unfinished-}
  p=${p%%-*}
  case $p in '' | *[!0-9]*) continue ;; esac
  kill -0 "$p" 2>/dev/null || [ -d "/proc/$p" ] || rm -f -- "$l"
done
