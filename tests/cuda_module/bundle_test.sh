#!/usr/bin/env bash
# The bundle for a machine with a GPU: it is small enough, unpacks anywhere, and says plainly where
# there is no GPU. Exits with 77, which is skipped, where there is one: run.sh is run by hand there.
#   bundle_test.sh BUILD
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tools/gpu/bundle.sh "$build" "$work/bundle.tar.gz"
mkdir "$work/elsewhere"
tar -C "$work/elsewhere" -xf "$work/bundle.tar.gz"
cd "$work/elsewhere"
if gangway-gpu/bin/gangway devices --json | grep -q '"cuda", "usable": true'; then exit 77; fi
status=0
gangway-gpu/run.sh log >/dev/null || status=$?
[ "$status" -eq 1 ] || { echo "run.sh exits with $status: expected 1"; exit 1; }
grep -q "^=== commit [0-9a-f]\{40\}" log || { echo "the log names no commit"; exit 1; }
grep -q "no NVIDIA driver" log || { echo "the log does not say why"; exit 1; }
grep -q "^=== no GPU" log || { echo "the log does not say that nothing was tested"; exit 1; }
