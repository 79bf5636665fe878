# A file of paths, which come after the environment's own: its libraries have precedence.
packages=$(env/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
{python} -I -c '
import sys
print(*(path for path in sys.path if path.endswith(("site-packages", "dist-packages"))), sep="\n")
' > "$packages/shared.pth"
