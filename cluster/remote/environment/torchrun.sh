#!/bin/sh
here=${{0%/bin/*}}
PYTHONPATH="$here/libraries/{name}${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec "$here/bin/python3" -m torch.distributed.run "$@"
