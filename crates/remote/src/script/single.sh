xargs -0 /bin/sh -c '
for f do
  r=
  if [ -f "$f" ]; then r=$({ @STREAM@ <"$f"; } 2>/dev/null) || r=; fi
  printf "answer %s\n" "$r"
done' sh
printf 'end %s\n' "$?"
