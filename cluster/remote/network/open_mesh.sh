# $1 our folder on the host, $2 the first port to try, $3 the configuration of sshd
set -eu
umask 077
mkdir -p -- "$1/ssh"
cd -- "$1/ssh"
sshd=$(command -v sshd || echo /usr/sbin/sshd)
[ -x "$sshd" ] || { echo "There is no $sshd." >&2; exit 1; }
[ -s host_key ] || ssh-keygen -q -t ed25519 -N '' -C '' -f host_key
printf '%s\n' "$3" > settings.new
pid=$(cat pid 2> /dev/null || :)
ours() { tr '\0' ' ' < "/proc/$1/cmdline" | grep -qF "$PWD/settings"; }
if [ -n "$pid" ] && ours "$pid" 2> /dev/null; then
  if cmp -s settings settings.new; then echo "$(cat port) $(cat host_key.pub)"; exit; fi
  kill "$pid"
fi
mv settings.new settings
if [ "$(id -u)" = 0 ]; then
  mkdir -p /run/sshd
  # Without PAM, sshd turns away an account that has no password but a key.
  ! grep -q '^root:!' /etc/shadow || echo "UsePAM yes" >> settings
fi
port=$2
last=$((port + 100))
while [ "$port" -lt "$last" ]; do
  setsid "$sshd" -D -e -f "$PWD/settings" -p "$port" < /dev/null > log 2>&1 &
  pid=$!
  until grep -q 'Server listening' log || ! kill -0 "$pid" 2> /dev/null; do sleep 0.02; done
  if grep -q 'Server listening' log; then
    echo "$port" > port
    echo "$pid" > pid
    echo "$port $(cat host_key.pub)"
    exit
  fi
  port=$((port + 1))
done
cat log >&2
exit 1
