#!/usr/bin/env bash
# Tests Gangway on this machine's GPU, then measures it, in less than ten minutes. All output is one
# raw log with commit, card, tests run and skipped, and a table at its end. Part of a bundle
# (bundle.sh).
#   gangway-gpu/run.sh [--only STEP]... [--log FILE] [--list]     default log: gangway-gpu.log
# Exits with 1 if there is no GPU, if the C library is too old, or if something of Gangway's failed.
set -euo pipefail

# Name, seconds at most, and what the step shows. The shortest proof comes first, so that a broken
# driver shows in seconds. The seconds add up to less than ten minutes.
steps=(
  "proof 20 the driver's table: allocate, launch, event, copy, graph, product, chain, NCCL of one"
  "suites 90 devices, collectives, every op, fused kernels, graphs, hosts, a tiny model"
  "memcheck 35 compute-sanitizer over Gangway's own kernels"
  "racecheck 35 the same"
  "initcheck 35 the same"
  "equality 80 GPT-2 124M and 8 experts: the CPU's losses, in f32 and bf16"
  "parts 30 a launch, a replayed function, products, attention, experts"
  "calls 15 chains of 128 calls"
  "train-124m 30 tokens a second"
  "train-xl 40 tokens a second at 1.5B parameters"
  "train-moe 25 tokens a second with 8 experts"
  "torch-calls 15 the same chains in PyTorch"
  "torch-124m 60 PyTorch, eager and torch.compile"
  "torch-xl 65 the same at 1.5B parameters, compiled layer by layer"
)
budget_s=590

log="gangway-gpu.log"
only=()
while [ $# -gt 0 ]; do
  case $1 in
    --only) only+=("$2"); shift 2 ;;
    --log) log=$2; shift 2 ;;
    --list) printf '%s\n' "${steps[@]}"; exit ;;
    *) echo "run: unknown argument $1: expected --only STEP, --log FILE or --list" >&2; exit 2 ;;
  esac
done
for name in "${only[@]}"; do
  if ! printf '%s\n' "${steps[@]}" | grep -q "^$name "; then
    echo "run: there is no step \"$name\": --list names them" >&2
    exit 2
  fi
done
log=$(realpath -m "$log")
cd "$(dirname "$0")"
if [ ! -e commit ]; then
  echo "run: not a bundle: expected \"commit\" beside run.sh, as tools/gpu/bundle.sh packs it" >&2
  exit 1
fi

# NVIDIA's libraries lie among Python's packages, or with the toolkit.
library_folders() {
  local folder site
  python3 - 2>/dev/null <<'PYTHON' | while read -r site; do
import site, sysconfig
print(*{sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages(),
        site.getusersitepackages()}, sep="\n")
PYTHON
    for folder in "$site"/nvidia/*/lib; do printf '%s:' "$folder"; done
  done || true
  for folder in "${CUDA_HOME:-/usr/local/cuda}"/{lib64,lib,targets/x86_64-linux/lib}; do
    printf '%s:' "$folder"
  done
}
# Only for our programs: others, such as PyTorch, come with libraries of their own.
ours=(env "LD_LIBRARY_PATH=$PWD/lib:$(library_folders)${LD_LIBRARY_PATH:-}"
  "GANGWAY_TOOL=$PWD/bin/gangway")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache  # What is compiled once is used by all steps, and by them alone.
exec > >(tee "$log") 2>&1
tee=$!
# Ends with this status, once the log is whole.
finish() {
  exec >&- 2>&-
  wait "$tee" || true
  exit "$1"
}

# tests FILE...: prints how many of gw_gpu_test's tests ran, were skipped and failed. It counts the
# lines of single tests, so that tests before a time-out count too. For one file it also prints
# which test never ended.
tests() {
  { cat "$@" 2>/dev/null || true; } | awk -v one="$#" '
    /^\[ RUN      \] / { running = $4 }
    / \([0-9]+ ms\)$/ && /^\[       OK \] / { ++ok; running = "" }
    / \([0-9]+ ms\)$/ && /^\[  SKIPPED \] / { ++skipped; running = "" }
    / \([0-9]+ ms\)$/ && /^\[  FAILED  \] / { ++failed; running = "" }
    END {
      printf "%d run, %d skipped, %d failed", ok + failed, skipped, failed
      if (one == 1 && running != "") printf "; it ended in %s", running
      print ""
    }'
}

failed=() cut=() absent=()
wanted() { [ ${#only[@]} -eq 0 ] || printf '%s\n' "${only[@]}" | grep -qx -- "$1"; }
# step NAME COMMAND...: runs it within its seconds and keeps its output. False: not run, or failed.
step() {
  local name=$1 start=$SECONDS seconds left status=0
  shift
  wanted "$name" || return 1
  seconds=$(printf '%s\n' "${steps[@]}" | awk -v name="$name" '$1 == name { print $2 }')
  left=$((budget_s - SECONDS))
  if [ "$left" -lt "$seconds" ] && [ ${#only[@]} -eq 0 ]; then
    echo "=== $name: cut, $left s are left"
    cut+=("$name")
    return 1
  fi
  echo "=== $name: ${*/#"$PWD/"/}"
  timeout --kill-after=5 "$seconds" "$@" 2>&1 | tee "$work/$name.out" || status=${PIPESTATUS[0]}
  if grep -q '^\[ RUN ' "$work/$name.out"; then echo "=== $name: $(tests "$work/$name.out")"; fi
  echo "=== $name took $((SECONDS - start)) s of $seconds, exit $status"
  case $status:$name in
    0:*) ;;
    # It is slow by nature, and the log has its findings so far.
    124:*check) cut+=("$name") ;;
    *) failed+=("$name (exit $status)") ;;
  esac
  return "$status"
}
# The same for another's program: the log names its failures, which fail nothing here.
peer() {
  local before=("${failed[@]}")
  if ! step "$@" && wanted "$1"; then absent+=("$1"); fi
  failed=("${before[@]}")
}
# Prints the VALUE of a line "result: NAME VALUE"; nothing if there is none.
number() {
  { cat "$work"/*.out 2>/dev/null || true; } |
    awk -v name="$1" '$1 == "result:" && $2 == name { value = $3 } END { print value }'
}

echo "=== commit $(cat commit)"
echo "=== date $(date -u +%FT%TZ)"
echo "=== machine $(uname -sr), $(nproc) cores"
# No program of the bundle starts without it.
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ print $2 }') || glibc=
needed=$(cat glibc)
if [ "$(printf '%s\n' "$needed" "${glibc:-0}" | sort -V | head -n 1)" != "$needed" ]; then
  echo "=== glibc ${glibc:-unknown}, the bundle needs $needed: nothing was tested," \
    "nothing was measured"
  finish 1
fi
echo "=== glibc $glibc, the bundle needs $needed"
devices=$("${ours[@]}" bin/gangway devices --json) || devices="gangway devices failed"
echo "$devices"
if ! grep -q '"kind": *"cuda", *"usable": *true' <<<"$devices"; then
  "${ours[@]}" ldd lib/gangway/libgangway_cuda.so | grep "not found" || true
  echo "=== no GPU or no driver on this machine: nothing was tested, nothing was measured"
  finish 1
fi
card=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1) || card=unknown
nvidia-smi || true
echo "=== libraries"
"${ours[@]}" ldd lib/gangway/libgangway_cuda.so | grep -E 'cublas|nvrtc|cudnn|nccl' || true
python3 - <<'PYTHON' || true
import importlib.metadata as packages
for package in packages.distributions():
    name = package.metadata["Name"] or ""
    if name.startswith(("nvidia-", "torch", "triton")):
        print(name, package.version)
PYTHON

# Dense bf16 operations a second of known cards; of others the speed of products in this run.
peak_tflops() {
  case $card in
    *H100*PCIe*) echo 756 ;;
    *H100*NVL* | *H200*NVL*) echo 835 ;;
    *H100* | *H200*) echo 989 ;;
    *B200*) echo 2250 ;;
    *A100*) echo 312 ;;
    *) part BM_Matmul/8192/real_time flops ;;
  esac
}
# A column of a line of gpu_bench: its time, or a counter.
part() {
  awk -v name="$1" -v counter="${2:-}" '$1 == name {
    if (counter == "") { print $2; exit }
    for (i = 1; i <= NF; ++i) if (index($i, counter "=") == 1) {
      value = substr($i, length(counter) + 2)
      scale = value ~ /T/ ? 1 : value ~ /G/ ? 1e-3 : value ~ /P/ ? 1e3 : 1e-12
      print value * scale; exit
    }
  }' "$work/parts.out" 2>/dev/null || true
}

# --- Tests.
test=("${ours[@]}" bin/gw_gpu_test)
first='*CardDriver.*:CardKernels.*'
step proof "${test[@]}" --gtest_filter="$first" || true
step suites "${test[@]}" --gtest_filter="-$first:*Gpt2*" || true

# The kernels of libraries are not checked, if the tool can leave them out.
sanitizer=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin command -v compute-sanitizer) || sanitizer=
leave_out=(--kernel-regex-exclude 'kns=cublas|cutlass|gemm|gemv|xmma|splitK|cudnn|nccl')
help=
[ -z "$sanitizer" ] || help=$("$sanitizer" --help 2>&1) || true
[[ $help = *"${leave_out[0]}"* ]] || leave_out=()
for tool in memcheck racecheck initcheck; do
  wanted "$tool" || continue
  if [ -z "$sanitizer" ]; then
    echo "=== $tool: skipped, there is no compute-sanitizer"
    absent+=("$tool")
    continue
  fi
  kernels='CardKernels.*:*CardOps.EqualTheReference/*f32'
  [ "$tool" != memcheck ] || kernels=$kernels:'*CardOps.EqualTheReference/*bf16'
  # `env` comes last, since the sanitizer has libraries of its own.
  step "$tool" "$sanitizer" --tool "$tool" "${leave_out[@]}" --target-processes all \
    --error-exitcode 9 --print-limit 20 "${test[@]}" \
    --gtest_filter="$kernels" || true
done
step equality "${test[@]}" --gtest_filter='*Gpt2*' || true

# --- Measurements, PyTorch's beside ours.
# Prints line by line, so that a time-out loses no finished line.
step parts stdbuf -oL "${ours[@]}" bin/gpu_bench --benchmark_min_time=0.2 || true
if grep -qs "ERROR OCCURRED" "$work/parts.out"; then failed+=("parts (see ERROR OCCURRED)"); fi
programs=("${ours[@]}" bin/gpu_programs)
step calls "${programs[@]}" calls || true
step train-124m "${programs[@]}" train --model 124m --batch 32 16 8 --seconds 8 || true
step train-xl "${programs[@]}" train --model xl --batch 32 24 16 8 --seconds 12 || true
step train-moe "${programs[@]}" train --model 124m-moe --batch 16 8 4 --seconds 6 || true
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  export TORCHINDUCTOR_CACHE_DIR=$work/inductor TRITON_CACHE_DIR=$work/triton
  peer torch-calls python3 torch_peer.py calls
  batch=$(number train.124m.bf16.gangway.batch)
  peer torch-124m python3 torch_peer.py train --model 124m --batch "${batch:-32}" --seconds 5
  batch=$(number train.xl.bf16.gangway.batch)
  peer torch-xl python3 torch_peer.py train --model xl --batch "${batch:-8}" --seconds 6 \
    --compile layers
else
  for name in torch-calls torch-124m torch-xl; do
    if wanted "$name"; then
      echo "=== $name: skipped, python3 has no PyTorch that sees the card"
      absent+=("$name")
    fi
  done
fi

# --- The table.
ratio() {
  awk -v a="$1" -v b="$2" -v times="${3:-1}" \
    'BEGIN { if (a != "" && b > 0) printf "%.3g", a / b * times }'
}
row() {
  printf '%-40s %12s %14s %14s %10s  %s\n' "$1" "${2:--}" "${3:--}" "${4:--}" "${5:--}" "${6:-}"
}
training() {
  local name=$1 gangway=train.$1.bf16.gangway eager=train.$1.bf16.torch_eager
  local compiled=train.$1.bf16.torch_compile peak what goal
  peak=$(peak_tflops)
  row "$name: batch" "$(number "$gangway.batch")" "$(number "$eager.batch")" \
    "$(number "$compiled.batch")"
  for what in tokens_per_s tflops cpu_ms step_ms; do
    goal=
    [ "$what" != tokens_per_s ] || goal="goal: 1 to compile"
    row "$name: $what" "$(number "$gangway.$what")" "$(number "$eager.$what")" \
      "$(number "$compiled.$what")" \
      "$(ratio "$(number "$gangway.$what")" "$(number "$compiled.$what")")" "$goal"
  done
  row "$name: MFU, %" "$(ratio "$(number "$gangway.tflops")" "$peak" 100)" \
    "$(ratio "$(number "$eager.tflops")" "$peak" 100)" \
    "$(ratio "$(number "$compiled.tflops")" "$peak" 100)" "" "${2:-}"
  row "$name: memory, MiB" "$(number "$gangway.planned_mib")" "$(number "$eager.peak_mib")" \
    "$(number "$compiled.peak_mib")" "" "planned; PyTorch's peak of tensors"
}
chained() {
  row "chain of 128, $1: us a node" "$(number "calls.chained_128_$1.us_per_node")" \
    "$(number "calls.torch_eager.chained_128_$1.us_per_node")" \
    "$(number "calls.torch_graph.chained_128_$1.us_per_node")" "" "$2"
}
summary() {
  echo "=== $card, peak $(peak_tflops) TFLOP/s (bf16, dense), commit $(cat commit)"
  row "" Gangway "torch eager" "compile/graph" "to compile"
  training 124m
  training xl "goal: 50"
  training 124m-moe
  chained waited ""
  chained ahead "goal: 10"
  row "two devices of the card, ahead: us a node" \
    "$(number calls.alternating_128_ahead.us_per_node)"
  row "a replayed function: us a launch" "$(part BM_ReplayedFunction/manual_time)" "" "" "" \
    "goal: 10"
  row "product of 8192: TFLOP/s" "$(part BM_Matmul/8192/real_time flops)"
}
summary

counted=$(tests "$work"/{proof,suites,equality}.out)
echo "=== tests: $counted"
if { wanted proof || wanted suites; } && [[ $counted = "0 run"* ]]; then
  failed+=("tests: none was run")
fi
echo "=== took $SECONDS s of $budget_s"
[ ${#cut[@]} -eq 0 ] || echo "=== cut for time: ${cut[*]}"
[ ${#absent[@]} -eq 0 ] || echo "=== not shown here: ${absent[*]}"
if [ ${#failed[@]} -gt 0 ]; then
  printf '=== failed: %s\n' "${failed[@]}"
else
  echo "=== all passed"
fi
finish $((${#failed[@]} > 0))
