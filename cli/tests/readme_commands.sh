#!/usr/bin/env bash
# readme_commands.sh ATTEST SOURCE: runs every command in the sh blocks of README.md as it stands there, in a folder
# that looks like the repository. ./verify, ./test and .ci/run build everything and are run by .ci/run instead.
# A command may exit 4, for the few cases of the README leave properties inconclusive.
set -euo pipefail
attest=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for entry in "$source"/*; do
  case ${entry##*/} in build | report) ;; *) ln -s "$entry" "$work/" ;; esac
done
mkdir -p "$work/bin"
ln -s "$attest" "$work/bin/attest"
export PATH=$work/bin:$PATH
cd "$work"

ran=0
while IFS= read -r line; do
  case $line in '' | '#'* | ./verify* | ./test* | .ci/run*) continue ;; esac
  status=0
  bash -c "$line" > output.txt 2>&1 < /dev/null || status=$?
  if ((status != 0 && status != 4)); then
    echo "README.md: '$line' exits $status:"
    cat output.txt
    exit 1
  fi
  ran=$((ran + 1))
done < <(awk '/^```/ { inside = ($0 == "```sh"); next } inside' "$source/README.md")
((ran >= 5)) || { echo "README.md: only $ran commands found"; exit 1; }
echo "$ran commands of README.md ran"
