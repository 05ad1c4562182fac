text; lister=$l
text; root=$l
if [ -f "$root" ] || [ -d "$root" ]; then w=
elif [ -e "$root" ]; then w=special
elif [ -h "$root" ]; then w=missing
else w=
fi
if [ "$w" ]; then
  case $lister in
  gnu | plain) printf 'end %s\0' "$w" ;;
  *) printf '//end %s//\n' "$w" ;;
  esac
  exit
fi
case $lister in
gnu) find -H "$root" -type f -printf '%s %T@/%i/%B@ %p\0'; printf 'end %s\0' "$?" ;;
stat) find -H "$root" -type f -exec stat -c '//%s %Y/%i %n//' {} +; printf '//end %s//\n' "$?" ;;
bsd) find -H "$root" -type f -exec stat -f '//%z %Fm/%i/%B %N//' {} +; printf '//end %s//\n' "$?" ;;
plain) find -H "$root" -type f -print0; printf 'end %s\0' "$?" ;;
esac
