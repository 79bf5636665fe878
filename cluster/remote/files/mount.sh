# $1 the list; $2 the device; $3 the folder; $4 the type; $5 options; $6 and $7 packages
now=$(device "$3")
[ "$now" != "$2" ] && ! { [ -n "$now" ] && grep -qsF "$2 $3 " "$1"; } || exit 0
[ -z "$now" ] || fail "$now is mounted there"
root true || exit
made=
[ -d "$3" ] || { root mkdir -p -- "$3" && made=made || exit; }
[ -z "$(ls -A -- "$3")" ] || fail "that folder has files"
if ! command -v "mount.$4" > /dev/null && [ -n "$6" ]; then
  root apt-get -qq -y install "$6" || { root apt-get -qq update && root apt-get -qq -y install "$6"
  } || root dnf -q -y install "$7"
fi > /dev/null 2>&1
mkdir -p -- "$(dirname -- "$1")"
grep -qsF "$2 $3 " "$1" || printf '%s %s %s\n' "$2" "$3" "$made" >> "$1"
root env -u "$MARK" timeout "$WITHIN" mount -t "$4" -o "$5" "$2" "$3"
