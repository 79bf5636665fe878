root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
apt() {
  root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q "$@"
}
add() {
  if command -v apt-get > /dev/null; then
    apt install -y --no-install-recommends "$1" || { apt update; apt install -y "$1"; }
  elif command -v dnf > /dev/null; then root dnf install -y -q "$1"
  elif command -v apk > /dev/null; then root apk add -q "$1"
  elif command -v pacman > /dev/null; then root pacman -S --noconfirm "$1"
  elif command -v zypper > /dev/null; then root zypper -n install "$1"
  fi
}
