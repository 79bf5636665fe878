#!/bin/sh
LD_LIBRARY_PATH={folders}"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export LD_LIBRARY_PATH
exec {prefix}/bin/"${{0##*/}}" "$@"
