# $1 the list. Who uses a folder is found in /proc, which needs no further program.
[ -e "$1" ] || exit 0
failed=0
while read -r source folder made; do
  if [ -n "$(device "$folder")" ] && ! root timeout "$WITHIN" umount -- "$folder" < /dev/null; then
    failed=1
    root sh -c 'for process in /proc/[0-9]*; do
      readlink "$process/cwd" "$process"/fd/* | grep -qE "^$0(/|$)" || continue
      echo "${process#/proc/} $(tr "\0" " " < "$process/cmdline")"
    done' "$folder" < /dev/null
  elif [ -n "$made" ]; then root rmdir -- "$folder"; fi
done < "$1"
[ "$failed" = 0 ] || exit 1
rm -f -- "$1"
rmdir -- "$(dirname -- "$1")" 2> /dev/null || :
