# Sourced by ./quickstart, ./check and .ci/run: names the running stage, and measures all stages.
#   stage NAME COMMAND...   runs it; if it fails, the shell names the stage and ends
#   stage_times             prints the seconds of each stage so far, and of all together: elapsed
#                           time, processor time, and if the script has a function saved_seconds,
#                           the time that it would have taken without caches
stage_lines=()
stage_cold=0  # What all stages would have taken without caches.
stage_current=start
trap 'echo "=== FAILED in stage: $stage_current" >&2' ERR
set -o errtrace

# Processor time of this shell and of all processes that it has waited for.
processor_seconds() {
  awk -v ticks="$(getconf CLK_TCK)" \
    '{ sub(/.*\) /, ""); printf "%d", ($12 + $13 + $14 + $15) / ticks }' "/proc/$$/stat"
}

stage_line() {
  printf '%6d s %6d s' "$1" "$2"
  if declare -F saved_seconds >/dev/null; then
    printf ' %6d s' "$4"
  fi
  printf '  %s' "$3"
}

stage() {
  local start=$SECONDS worked took saved=0
  worked=$(processor_seconds)
  stage_current=$1
  shift
  "$@"
  took=$((SECONDS - start))
  worked=$(($(processor_seconds) - worked))
  if declare -F saved_seconds >/dev/null; then
    saved=$(saved_seconds)
  fi
  stage_cold=$((stage_cold + took + saved))
  stage_lines+=("$(stage_line $took $worked "$stage_current" $((took + saved)))")
}

stage_times() {
  printf '%8s %8s' took worked
  if declare -F saved_seconds >/dev/null; then
    printf ' %8s' cold
  fi
  printf '\n'
  printf '%s\n' "${stage_lines[@]}"
  stage_line "$SECONDS" "$(processor_seconds)" all "$stage_cold"
  printf '\n'
}
