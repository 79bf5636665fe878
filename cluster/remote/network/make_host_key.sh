if [ ! -e "$key.ours" ]; then
  [ -s "$key.new" ] || ssh-keygen -q -t ed25519 -N '' -C '' -f "$key.new"
  key=$key.new
fi
ssh-keygen -y -f "$key" | cut -d ' ' -f 1,2
