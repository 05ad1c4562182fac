xargs -0 /bin/sh -c 'for f do if [ -f "$f" ]; then printf "%s\0" "$f"; fi; done' sh |
