# The arguments are the command; it reads nothing. Nothing is ever sent, so that a `read` from
# standard input returns when we are gone, or have closed it.
exec 3<&0
"$@" < /dev/null 3<&- &
command=$!
(
  read -r nothing <&3
  kill "$command" && sleep "$WITHIN" && kill -9 "$command"
) < /dev/null > /dev/null 2>&1 &
waiting=$!
exec 3<&-
wait "$command"
status=$?
kill "$waiting"
[ "$status" != "$FAILED" ] || status=1
exit "$status"
