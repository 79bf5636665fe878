# $1 the folder
export LC_ALL=C
disk=$1
until [ -d "$disk" ]; do disk=$(dirname -- "$disk"); done
{ command -v rsync > /dev/null && printf 'rsync\0' || printf '\0'
  df -B1 --output=avail -- "$disk" | tail -n 1
  printf '\0'
  if [ -d "$1" ]; then
    cd -- "$1" && find . -mindepth 1 -printf '%y %s %T@ %m %P\0%l\0' && printf '%s\0' "$END"
  elif [ -e "$1" ] || [ -L "$1" ]; then echo "it is no folder" >&2
  else printf '%s\0' "$END"; fi
} | gzip -1 | base64
