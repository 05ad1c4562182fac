text; folder=$l
show() { # name, most lines: a file of the kernel, or of the system
  k=0
  if [ -r "/$1" ]; then
    while [ "$k" -lt "$2" ] && IFS= read -r l; do
      printf 'line %s %s\n' "$1" "$l"
      k=$((k + 1))
    done <"/$1"
  fi
}
first() { # name, what a program printed
  v=${2%%"$n"*}
  if [ -n "$v" ]; then printf '%s %s\n' "$1" "$v"; fi
}
first system "$(uname -sr 2>/dev/null)"
first architecture "$(uname -m 2>/dev/null)"
first processors "$(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null)"
if [ ! -r /proc/cpuinfo ]; then
  first processor "$(sysctl -n machdep.cpu.brand_string 2>/dev/null || sysctl -n hw.model 2>/dev/null)"
  first memory "$(sysctl -n hw.memsize 2>/dev/null || sysctl -n hw.physmem 2>/dev/null)"
fi
first folder "$(cd -- "$folder" 2>/dev/null && pwd -P)"
