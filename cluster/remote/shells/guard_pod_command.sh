# Reads from its standard input how many lines the command has, then these lines: words of `exec`
# are in the address of the request, whose length proxies limit and which API servers log.
# $1 is the mark; $2 whether the command reads the rest. If not, that is held open, and its end
# shows that the other end is gone: without it, the command would go on for ever.
n='
'
read -r lines
line=
while [ "$lines" -gt 0 ]; do IFS= read -r part; line=$line$part$n; lines=$((lines - 1)); done
cd
if [ "$2" = reads ]; then
  (sh -c "$line")
  s=$?
else
  exec 3<&0
  $(command -v setsid) sh -c "$line" < /dev/null 3<&- &
  command=$!
  (
    read -r nothing <&3
    kill -- "-$command" || kill "$command"
    sleep 2
    kill -9 -- "-$command" || kill -9 "$command"
  ) < /dev/null > /dev/null 2>&1 &
  waiting=$!
  exec 3<&-
  wait "$command"
  s=$?
  kill "$waiting"
fi
printf "$1" >&2
printf "$1%0${DIGITS}d" "$s"
