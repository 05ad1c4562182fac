text; how=$l
text; root=$l
text; left=$l
mask=$(umask)
umask 077
set -C
now=
trap 'if [ -n "$now" ]; then rm -f -- "$now"; fi; if [ "$#" -gt 0 ]; then rm -f -- "$@"; fi' EXIT
trap 'exit 1' HUP INT TERM PIPE
printf 'pid %s\0' "$$"
# Without it, a read of a pipe may give less than a block.
exact=iflag=fullblock most=1048576
if [ "$(printf abc | dd bs=3 count=1 $exact 2>/dev/null)" != abc ]; then exact= most=1; fi
take() { # so many bytes of what is sent
  if [ "$1" -ge "$most" ]; then dd bs=$most count=$(($1 / most)) $exact || return 1; fi
  if [ $(($1 % most)) -gt 0 ]; then dd bs=$(($1 % most)) count=1 $exact || return 1; fi
}
cause() { e=${e##*: }; e=${e%%"$n"*}; e=${e:-it cannot be done}; } # what a program said last
folder() {
  if [ -h "$1" ] && [ "$1" != "$root" ]; then e='link'
  elif [ -d "$1" ]; then :
  elif [ -e "$1" ] || [ -h "$1" ]; then e='file'
  else
    e=$( (umask "$mask"; mkdir -- "$1") 2>&1)
    if [ -d "$1" ]; then e=; return; fi
    cause
    if [ "$1" != "$root" ]; then e="create $e"; return; fi
    printf 'failed root %s\0' "$e"
    exit 1
  fi
}
i=0
while [ "$i" -lt "$left" ]; do
  i=$((i + 1)) e=
  text; path=$l
  text; passing=$l
  text; size=$l
  text; bits=$l
  text; folders=$l
  while [ "$folders" -gt 0 ]; do
    folders=$((folders - 1))
    text
    if [ -z "$e" ]; then folder "$l"; fi
  done
  now=$passing$$-$i
  if [ -n "$e" ]; then now=
  elif [ -d "$path" ] && [ ! -h "$path" ]; then e=directory now=
  elif [ -e "$path" ] && [ ! -f "$path" ] && [ ! -h "$path" ]; then e=special now=
  else
    if [ -e "$now" ] || [ -h "$now" ]; then rm -f -- "$now"; fi
    umask "$bits"
    { true >"$now"; } 2>/dev/null || e=$({ true >"$now"; } 2>&1) || { cause; e="create $e" now=; }
    umask 077
  fi
  if [ -n "$e" ]; then take "$size" >/dev/null 2>&1
  else
    e=$(take "$size" 2>&1 >>"$now") && e= || {
      cause
      printf 'failed write %s\0' "$e"
      exit 1
    }
  fi
  text
  if [ -n "$e" ]; then printf 'failed %s\0' "$e"
  elif [ "$l" = 1 ]; then
    set -- "$@" "$now"
    printf 'staged\0'
  else
    rm -f -- "$now"
    printf 'left\0'
  fi
  now=
done
if [ "$how" != none ] && [ "$#" -gt 0 ]; then
  e=$(sync -- "$@" 2>&1) || { cause; printf 'failed sync %s\0' "$e"; exit 1; }
fi
if [ "$how" = reread ]; then
  for t do dd of="$t" oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null || break; done
fi
printf 'ready\0'
last=
names() { # brings new names to the disk
  if [ -n "$last" ] && [ "$how" != none ]; then sync -- "$last" 2>/dev/null; fi
}
same() { # gives a file the owner and the mode of another
  if [ -h "$1" ]; then e=link; return; fi
  for o in -c%u:%g:%a -f%u:%g:%Mp%Lp; do
    was=$(stat "$o" -- "$1" 2>/dev/null) && has=$(stat "$o" -- "$2" 2>/dev/null) && break
  done
  mode=${was##*:} was=${was%:*}
  if [ "${has%:*}" != "$was" ]; then e=$(chown -- "$was" "$2" 2>&1) || { cause; e="owner $e"; return; }; fi
  e=$(chmod -- "$mode" "$2" 2>&1) || { cause; e="mode $e"; }
}
text; left=$l
while [ "$left" -gt 0 ]; do
  left=$((left - 1)) e=
  text; passing=$l
  text; path=$l
  text; time=$l
  text; mode=$l
  case $mode in
  new*) mode=${mode#new}; if [ -e "$path" ] || [ -h "$path" ]; then e='rename File exists'; fi ;;
  esac
  if [ -n "$e" ]; then printf 'failed %s\0' "$e"; continue; fi
  touch -d "@$time" -- "$passing" 2>/dev/null ||
    touch -d "@${time%.*}" -- "$passing" 2>/dev/null ||
    e=$(TZ=UTC0 touch -t "$(TZ=UTC0 date -r "${time%.*}" +%Y%m%d%H%M.%S)" -- "$passing" 2>&1) ||
    { cause; e="time $e"; }
  if [ -z "$e" ] && [ "$mode" = same ]; then same "$path" "$passing"
  elif [ -z "$e" ] && [ -n "$mode" ]; then e=$(chmod "$mode" "$passing" 2>&1) || { cause; e="mode $e"; }; fi
  # A name that leads to a directory would be gone into.
  if [ -z "$e" ] && [ -h "$path" ] && [ -d "$path" ]; then rm -f -- "$path"; fi
  if [ -z "$e" ]; then
    mv -f -- "$passing" "$path" 2>/dev/null || e=$(mv -f -- "$passing" "$path" 2>&1) || { cause; e="rename $e"; }
  fi
  if [ -n "$e" ]; then printf 'failed %s\0' "$e"; continue; fi
  printf 'placed\0'
  if [ "${path%/*}" != "$last" ]; then names; last=${path%/*}; fi
done
names
