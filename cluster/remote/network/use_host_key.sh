if [ ! -e "$key.ours" ]; then
  mv "$key.new" "$key"
  ssh-keygen -y -f "$key" > "$key.pub"
  rm -f "$key.new.pub"
  touch "$key.ours"
fi
if listens "$(tr '\0' ' ' < "/proc/$sshd/cmdline")"; then kill -HUP "$sshd"; fi
