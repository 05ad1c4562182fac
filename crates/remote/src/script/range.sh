text; path=$l
text; from=$l
text; count=$l
if [ ! -f "$path" ]; then
  if [ -d "$path" ]; then printf 'directory\n'
  elif [ -e "$path" ]; then printf 'special\n'
  else printf 'missing\n'
  fi
elif [ ! -r "$path" ]; then printf 'denied\n'
else
  printf 'data\n'
  tail -c "+$from" <"$path" | head -c "$count"
fi
