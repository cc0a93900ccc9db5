#!/usr/bin/env bash
# Packs the programs that test and measure a GPU into one tar, for a machine that has a card but no
# compiler: stripped programs and Debian's libraries. NVIDIA's libraries are linked where the tar is
# unpacked.
#   tools/gpu/bundle.sh [build folder] [tar]     default: build gangway-gpu.tar.gz
# On that machine: tar xf gangway-gpu.tar.gz && gangway-gpu/run.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${1:-build}
tar=${2:-gangway-gpu.tar.gz}
bytes_max=$((64 << 20))

fail() {
  echo "bundle: $1" >&2
  exit 1
}

module=$build/lib/gangway/libgangway_cuda.so
[ -e "$module" ] || fail "$module is missing: build target gangway_cuda where nvcc and NCCL are"
programs=("$build/tools/gangway" "$build/tests/cuda_module/gw_gpu_test" "$build/bench/gpu_bench"
  "$build/bench/gpu_programs")
for program in "${programs[@]}"; do
  [ -x "$program" ] || fail "$program is missing: build target ${program##*/}"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/gangway-gpu
mkdir -p "$root"/{bin,lib/gangway}
for program in "${programs[@]}"; do
  strip -o "$root/bin/${program##*/}" "$program"
done
strip -o "$root/lib/gangway/${module##*/}" "$module"

# All libraries that they need but the C library, which must fit the machine's own, and NVIDIA's.
ldd "$root"/bin/* | awk '$3 ~ "^/" { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so' | while read -r library; do
  strip -o "$root/lib/${library##*/}" "$library"
done

# The newest C library that one of the files needs.
objdump -T "$root"/bin/* "$root"/lib/*.so* "$root"/lib/gangway/* | grep -o 'GLIBC_[0-9.]*' |
  sort -uV | tail -n 1 | cut -d _ -f 2 >"$root/glibc"

commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || commit="$commit, with changes"
echo "$commit" >"$root/commit"
cp tools/gpu/run.sh tools/gpu/torch_peer.py "$root/"

tar -C "$work" --owner=0 --group=0 -czf "$tar" gangway-gpu
bytes=$(stat -c %s "$tar")
echo "$tar: $bytes bytes of at most $bytes_max, commit $commit"
[ "$bytes" -le "$bytes_max" ] || fail "$tar is too large"
