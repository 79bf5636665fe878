# pip comes along as a wheel; where no other wheel does, it asks the host's own package index.
rm -rf {folder}.part
set -- "$1" "$2" "$new"/*.whl
[ $# = 3 ] && from= || from="--no-index --find-links $new"
get() {{
  env/bin/python3 "$(echo "$new"/pip-*.whl)/pip" install --no-input \
    --disable-pip-version-check --retries {retries} --only-binary=:all: --no-compile \
    --target {folder}.part $from "$@" {requirements}
}}
get{otherwise}
mv {folder}.part {folder}
if [ -d {folder}/torch ]; then
  printf '%s
' {torchrun} > env/bin/torchrun
  chmod +x env/bin/torchrun
fi
