text; lister=$l
text; root=$l
case $lister in
gnu) find -H "$root" -type f -printf '%s %T@ %p\0'; printf 'end %s\0' "$?" ;;
stat) find -H "$root" -type f -exec stat -c '//%s %Y %n//' {} +; printf '//end %s//\n' "$?" ;;
bsd) find -H "$root" -type f -exec stat -f '//%z %Fm %N//' {} +; printf '//end %s//\n' "$?" ;;
plain) find -H "$root" -type f -print0; printf 'end %s\0' "$?" ;;
esac
