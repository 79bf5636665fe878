#!/bin/sh
set -- {image} "$@"
for name in $(env | sed -nE 's/^((OMPI|PMIX|PRTE|PMI|CLUSTER)_[A-Za-z0-9_]*)=.*/\1/p'); do
  set -- -e "$name" "$@"
done
here=$(cd -- "${{0%/*}}/../.." && pwd)
exec {engine} run --rm --network host --ipc host --pid host {user}-v /tmp:/tmp \
  -v "$here:$here" -w "$PWD" -e PYTHONPATH="$here/env/image" "$@"
