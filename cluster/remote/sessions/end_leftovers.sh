# $1 is the variable with its value. A zombie has no command line. Of the words of /proc/PID/stat
# behind the name, the fifth is the controlling terminal (proc(5)). This search names itself not. It
# counts only if it finds a probe that was started for it: where a fork fails, all else is missed.
printf 'a\0b\0' | grep -qzxF b || exit $CANNOT_LOOK
marked() {
  for pid in $(grep -lszxF -- "$1" /proc/[0-9]*/environ | cut -d / -f 3); do
    [ ! -O "/proc/$pid" ] || echo "$pid"
  done
}
below() { for pid; do echo "$pid"; below $(cat "/proc/$pid/task/"*/children 2> /dev/null); done; }
line() { tr '\0\n' '  ' < "/proc/$1/cmdline"; }
alive() { for pid; do [ -z "$(line "$pid")" ] || echo "$pid"; done 2> /dev/null; }
ours() { alive $(below "$@" $(marked "$mark") | sort -u); }
gone() { for pid; do ! kill -s 0 "$pid" 2> /dev/null || return 1; done; }
# not named: what has ended, itself, and the agent that ends what a supervisor left
named() {
  for pid; do
    words=$(line "$pid")
    case $words in '' | *'grep -lszxF'* | *'cluster.agent task-close'*) ;; *) printf '%s\n' "$pid $words" ;; esac
  done
}
search() {
  probed='' others=''
  for pid in $(ours "$@"); do
    if [ "$pid" = "$probe" ]; then probed=1; else others="$others $pid"; fi
  done
  [ -n "$probed" ] && left=$others
}
session() {
  for pid; do
    [ "$pid" != $$ ] || return 0
    read -r stat < "/proc/$pid/stat" || continue
    case $stat in *"(tmux"* | *"(screen"*) return 0 ;; esac
    set -- ${stat##*) }
    [ "$5" = 0 ] || return 0
  done
  return 1
}
mark=$1 left='' tries=0
(export "$mark"; exec sleep "$WITHIN") < /dev/null > /dev/null 2>&1 &
probe=$!
trap 'kill $probe 2> /dev/null' EXIT
until search; do
  [ $tries -lt 20 ] || exit $CANNOT_LOOK
  sleep 0.1
  tries=$((tries + 1))
done
named $left 2> /dev/null
if session $left 2> /dev/null; then echo "$SPARED"; exit; fi
for signal in TERM KILL KILL KILL; do
  [ -n "$left" ] || break
  kill -s $signal $left 2> /dev/null
  tries=0
  until gone $left || [ $tries -ge 20 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  search $left || :
done
[ -z "$left" ] || { echo $left >&2; exit 1; }
