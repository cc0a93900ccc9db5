#!/usr/bin/env bash
# check_format.sh <clang-format>: names the lines that are not as .clang-format says, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  git ls-files -z -- '*.h' '*.cc' '*.cu' '*.cuh' '*.inl'
else
  find . -path './build*' -prune -o \
    \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.inl' \) -print0
fi | xargs -0 "$1" --dry-run -Werror
