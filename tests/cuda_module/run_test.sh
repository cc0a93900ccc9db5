#!/usr/bin/env bash
# Tests how tools/gpu/run.sh handles the answers of its programs, with stand-ins for the programs,
# the card's tools and PyTorch.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/gangway-gpu
mkdir -p "$root"/{bin,lib/gangway} "$work/tools"
cp tools/gpu/run.sh "$root/"
echo 0123456789 >"$root/commit"
echo 2.36 >"$root/glibc"
touch "$root/lib/gangway/libgangway_cuda.so"

stand_in() { printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1" && chmod +x "$1"; }
stand_in "$root/bin/gangway" 'echo "{\"kind\": \"cuda\", \"usable\": true}"'
stand_in "$root/bin/gw_gpu_test" '
echo "[ RUN      ] A.Runs"
echo "[       OK ] A.Runs (1 ms)"
echo "[ RUN      ] A.Skips"
echo "[  SKIPPED ] A.Skips (0 ms)"
echo "[ RUN      ] A.Last"
[ "${TESTS:-}" != hang ] || exec sleep 60
[ "${TESTS:-}" != fail ] || {
  echo "[  FAILED  ] A.Last, where GetParam() = f32 (2 ms)"
  echo "[  FAILED  ] 1 test, listed below:"
  echo "[  FAILED  ] A.Last, where GetParam() = f32"
  exit 3
}
echo "[       OK ] A.Last (2 ms)"'
stand_in "$root/bin/gpu_bench" '
echo "BM_ReplayedFunction/manual_time       4.50 us         9.00 us       100"
echo "BM_Matmul/8192/real_time              1500 us         1600 us       10 flops=700.5T/s runs=9"'
stand_in "$root/bin/gpu_programs" '
case "$*" in
  calls) echo "result: calls.chained_128_ahead.us_per_node 2.5" ;;
  *124m-moe*) echo "result: train.124m-moe.bf16.gangway.tokens_per_s 1000" ;;
  *124m*)
    echo "result: train.124m.bf16.gangway.tokens_per_s 300000"
    echo "result: train.124m.bf16.gangway.batch 16" ;;
  *xl*) echo "result: train.xl.bf16.gangway.tflops 494.5" ;;
esac'
stand_in "$work/tools/nvidia-smi" 'echo "NVIDIA H100 80GB HBM3"'
stand_in "$work/tools/getconf" 'echo "glibc ${GLIBC:-2.41}"'
# Like the tool, the stand-in fails where the program calls nothing of CUDA.
stand_in "$work/tools/compute-sanitizer" '
case "$*" in
  --help) echo "  --kernel-regex-exclude arg  Filter out kernels"; seq 20000; exit ;;
  */bin/true) echo "Target application terminated before first instrumented API call"; exit 1 ;;
esac
exit "${SANITIZER:-0}"'
stand_in "$work/tools/python3" '
case "$*" in
  *124m*"--batch 16"*) echo "result: train.124m.bf16.torch_compile.tokens_per_s 200000" ;;
  *xl*) exit "${TORCH:-0}" ;;
esac'

# run STATUS ARGUMENTS...: expects that exit status, and writes the output to $work/log.
run() {
  local want=$1 status=0
  shift
  PATH=$work/tools:$PATH "$root/run.sh" --log "$work/log" "$@" >/dev/null 2>"$work/errors" ||
    status=$?
  [ "$status" -eq "$want" ] && return
  echo "run.sh $* exits with $status: expected $want"
  cat "$work/log" "$work/errors"
  exit 1
}
says() {
  grep -qE -- "$1" "$work/log" && return
  echo "the log does not say: $1"
  cat "$work/log"
  exit 1
}

run 0
says '^=== all passed'
says '^=== tests: 6 run, 3 skipped, 0 failed'
says '^=== proof: 2 run, 1 skipped, 0 failed'
says '^=== glibc 2.41, the bundle needs 2.36'
says '^=== racecheck: .*--kernel-regex-exclude' # Of the libraries' kernels nothing is checked.
says '^124m: tokens_per_s +300000 +- +200000 +1.5 '
says '^xl: MFU, % +50 .*goal: 50'
says 'us a launch +4.50 '
says 'product of 8192: TFLOP/s +700.5 '
says 'chain of 128, ahead: us a node +2.5 .*goal: 10'
says '^=== commit 0123456789'

TESTS=fail run 1
says '^=== failed: proof \(exit 3\)'
says '^=== tests: 6 run, 3 skipped, 3 failed'
says '^124m: tokens_per_s' # What can be measured still is.

TORCH=1 run 0
says '^=== not shown here: torch-xl$'

SANITIZER=9 run 1
says '^=== failed: racecheck \(exit 9\)'

run 0 --only calls
says '^=== calls took'
if grep -q '^=== proof' "$work/log"; then echo "--only calls runs other steps"; exit 1; fi
run 2 --only nothing

SANITIZER=124 run 0
says '^=== cut for time: memcheck racecheck initcheck$'

sed -i 's/^  "proof 20/  "proof 1/' "$root/run.sh"
TESTS=hang run 1 --only proof
says '^=== failed: proof \(exit 124\)'
# Tests that had ended by then count; the test that had not ended is named.
says '^=== proof: 1 run, 1 skipped, 0 failed; it ended in A.Last'
says '^=== tests: 1 run, 1 skipped, 0 failed'
sed -i 's/^  "proof 1/  "proof 20/' "$root/run.sh"

stand_in "$work/tools/nvidia-smi" 'echo "NVIDIA Unknown"'
run 0
says '^=== NVIDIA Unknown, peak 700.5 TFLOP/s'

sed -i 's/^budget_s=.*/budget_s=0/' "$root/run.sh"
run 1
says '^=== cut for time: proof suites memcheck .* torch-xl$'

stand_in "$root/bin/gangway" 'echo "{\"kind\": \"cuda\", \"usable\": false}"'
run 1
says '^=== no GPU or no driver'

GLIBC=2.35 run 1
says '^=== glibc 2.35, the bundle needs 2.36: nothing was tested, nothing was measured'
if grep -q '"kind"' "$work/log"; then echo "glibc is not what is checked first"; exit 1; fi
