xargs -0 /bin/sh -c '
for f do
  if [ -d "$f" ]; then w=directory
  elif [ -f "$f" ]; then
    if [ ! -r "$f" ]; then w=denied
    else w="failed $({ cat <"$f" >/dev/null; } 2>&1)"; fi
  elif [ -e "$f" ]; then w=special
  else
    w=missing
    d=$f
    while :; do
      case $d in
      /*/*) d=${d%/*} ;;
      /*) d=/ ;;
      */*) d=${d%/*} ;;
      *) d=. ;;
      esac
      if [ -d "$d" ]; then if [ ! -x "$d" ]; then w=denied; fi; break; fi
      case $d in / | .) break ;; esac
    done
  fi
  printf "why %s\n" "$w"
done' sh
printf 'end %s\n' "$?"
