#!/usr/bin/env bash
# The bundle for a machine with a GPU: it is small enough, unpacks anywhere, its programs start, and
# it says plainly where there is no GPU. Exits with 77, which is skipped, where there is one: run.sh
# is run by hand there.
#   bundle_test.sh BUILD
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$1"; exit 1; }

tools/gpu/bundle.sh "$build" "$work/bundle.tar.gz"
mkdir "$work/elsewhere"
tar -C "$work/elsewhere" -xf "$work/bundle.tar.gz"
cd "$work/elsewhere"

# No library is missing but NVIDIA's.
export LD_LIBRARY_PATH=$PWD/gangway-gpu/lib
missing=$(ldd gangway-gpu/bin/* gangway-gpu/lib/gangway/* | grep "not found" |
  grep -vE 'lib(cublasLt|cublas|nvrtc|nccl|cudnn|cuda)\b' || true)
[ -z "$missing" ] || fail "the bundle lacks $missing"
gangway-gpu/bin/gangway --help >/dev/null
gangway-gpu/bin/gpu_programs train --help >/dev/null
gangway-gpu/bin/gpu_bench --benchmark_list_tests | grep -q BM_ReplayedFunction ||
  fail "gpu_bench does not list its parts"
gangway-gpu/bin/gw_gpu_test --gtest_list_tests >tests
for suite in Real/CardDriver. CardKernels. Real/DeviceSuite. Real/CollectiveSuite. Real/CardOps. \
  Real/CardGraphs. Real/CardHosts. Real/CardTraining. Real/Gpt2OnACard.; do
  grep -qxF "$suite" tests || fail "gw_gpu_test has no suite $suite"
done
GANGWAY_TOOL=$PWD/gangway-gpu/bin/gangway gangway-gpu/bin/gpu_programs train --device cpu \
  --model tiny --batch 2 --steps 3 | grep -q "^result: train.tiny.bf16.gangway.tokens_per_s" ||
  fail "gpu_programs does not train"
if gangway-gpu/bin/gangway devices --json | grep -q '"cuda", "usable": true'; then exit 77; fi
unset LD_LIBRARY_PATH

status=0
gangway-gpu/run.sh --log log >/dev/null || status=$?
[ "$status" -eq 1 ] || fail "run.sh exits with $status: expected 1"
grep -q "^=== commit [0-9a-f]\{40\}" log || fail "the log names no commit"
grep -q "no NVIDIA driver" log || fail "the log does not say why"
grep -q "^=== no GPU" log || fail "the log does not say that nothing was tested"
