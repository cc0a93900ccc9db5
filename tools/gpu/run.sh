#!/usr/bin/env bash
# Tests Gangway on this machine's GPU, then measures it, in less than ten minutes; all that comes
# out is one raw log with commit, card, tests run and skipped. Part of a bundle (bundle.sh).
#   gangway-gpu/run.sh [log]     default: gangway-gpu.log
# Exits with 1 where there is no GPU, or where something failed.
set -euo pipefail
log=$(realpath -m "${1:-gangway-gpu.log}")
cd "$(dirname "$0")"

if [ ! -e commit ]; then
  echo "run: not a bundle: expected \"commit\" beside run.sh, as tools/gpu/bundle.sh packs it" >&2
  exit 1
fi

# NVIDIA's libraries lie with the toolkit, or with Python's packages.
folders=$PWD/lib
for folder in /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/local/cuda/targets/x86_64-linux/lib \
  /usr/lib/python3*/*-packages/nvidia/*/lib /usr/local/lib/python3*/*-packages/nvidia/*/lib; do
  [ ! -d "$folder" ] || folders=$folders:$folder
done
export LD_LIBRARY_PATH=$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export GANGWAY_TOOL=$PWD/bin/gangway

work=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

exec > >(tee "$log") 2>&1
failed=()
# step NAME SECONDS COMMAND...
step() {
  local name=$1 seconds=$2 start=$SECONDS
  shift 2
  echo "=== $name: $*"
  timeout --kill-after=5 "$seconds" "$@" || failed+=("$name (exit $?)")
  echo "=== $name took $((SECONDS - start)) s"
}

echo "=== commit $(cat commit)"
echo "=== date $(date -u +%FT%TZ)"
devices=$(bin/gangway devices --json) || devices="gangway devices failed"
echo "$devices"
if ! grep -q '"kind": *"cuda", *"usable": *true' <<<"$devices"; then
  echo "=== no GPU or no driver on this machine: nothing was tested, nothing was measured"
  exit 1
fi
nvidia-smi || true

while read -r test; do
  step "$test" 150 "bin/$test" --gtest_output="xml:$work/$test.xml"
done <tests

step "gpu_bench" 120 bin/gpu_bench --benchmark_min_time=0.5
if grep -q "ERROR OCCURRED" "$log"; then failed+=("gpu_bench (see ERROR OCCURRED)"); fi

# A cluster of one process of each kind, and a model that trains on its card.
train() {
  bin/gangway controller --listen "unix:$work/controller" &
  started+=($!)
  bin/gangway executor --connect "unix:$work/controller" --device cuda --devices 1 &
  started+=($!)
  local tries=60
  until bin/gangway devices --connect "unix:$work/controller" --json 2>/dev/null | grep -q cuda; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { failed+=("cluster"); return; }
    sleep 0.5
  done
  for dtype in f32 bf16; do
    step "train $dtype" 60 bin/gangway train reference --dtype "$dtype" --steps 100 --devices 1 \
      --connect "unix:$work/controller" --text text --out "$work/$dtype" --sample-bytes 0
  done
}
train

count() { cat "$work"/*.xml 2>/dev/null | grep -c "$1" || true; }
ran=$(count '<testcase .*status="run" result="completed"')
[ "$ran" -gt 0 ] || failed+=("tests: none was run")
skipped=$(count '<testcase .*result="skipped"')
echo "=== tests: $ran run, $skipped skipped, $(count '<failure ') failed"
echo "=== took $SECONDS s"
if [ ${#failed[@]} -gt 0 ]; then
  printf '=== failed: %s\n' "${failed[@]}"
  exit 1
fi
echo "=== all passed"
