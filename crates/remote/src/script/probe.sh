if [ -w /dev/null ] && (: >/dev/null </dev/null) 2>&-; then :; else printf 'null\n'; exit; fi
s=$(uname -sm 2>/dev/null)
if [ -n "$s" ]; then printf 'system %s\n' "$s"; else printf 'shell '; head -c 20 /bin/sh 2>/dev/null; printf '\n'; fi
have() { command -v "$1" >/dev/null 2>&1; }
if have gzip; then printf 'unpacks\n'; fi
right() { case $1 in *"$2"*) return 0 ;; esac; return 1; }
judge() { # what it gave for abc, for all bytes, for nothing, and how it named that
  right "$1" '@ABC@' && right "$2" '@BYTES@' && right "$3" '@EMPTY@' && right "$3" "$4"
}
tool() { # number, program, mark, batch, stream
  have "$2" || return 1
  if [ -n "$3" ]; then right "$("$2" --help 2>&1 </dev/null)" "$3" || return 1; fi
  a=$(printf abc | $5 2>/dev/null)
  b=$(printf '@OCTAL@' | $5 2>/dev/null)
  { c=$($4 /dev/null </dev/null); } 2>/dev/null
  if [ -z "$lister" ] || [ -z "$batch" ]; then printf 'unfit %s\n' "$1"; return 1; fi
  # Without an answer it does not know these options; there is a row without them.
  case $4 in *' -z' | *' -r '*) [ -n "$c" ] || return 1 ;; esac
  if judge "$a" "$b" "$c" /dev/null; then printf 'way %s\n' "$1"; return 0; fi
  printf 'rejected %s\n' "$1"
  return 1
}
server() { # number, program, algorithm, words of the command
  number=$1 algorithm=$3
  have "$2" || return 1
  shift 3
  { a=$(printf 'test\0%s\0' "$algorithm" | "$@"); } 2>/dev/null
  if judge "$a" "$a" "$a" 'verisum-remote 1'; then printf 'way %s\n' "$number"; return 0; fi
  printf 'rejected %s\n' "$number"
  return 1
}
lister= batch=
tools() { # looks for what tools cannot do without
  if [ "$(find -H / -prune -printf x 2>/dev/null)" = x ]; then lister=gnu
  elif [ "$(find -H / -prune -exec stat -c '%n//' {} + 2>/dev/null)" = /// ]; then lister=stat
  elif [ "$(find -H / -prune -exec stat -f '%N//' {} + 2>/dev/null)" = /// ]; then lister=bsd
  elif [ "$(find -H / -prune -print0 2>/dev/null | { IFS= read -r l; printf %s "$l"; } 2>/dev/null)" = / ]; then lister=plain
  fi
  printf 'lister %s\n' "$lister"
  if [ "$(printf '/\0a b\0' | xargs -0 /bin/sh -c 'printf %s "$#"' sh 2>/dev/null)" = 2 ]; then batch=1; fi
  printf 'batch %s\n' "$batch"
  return 1
}
