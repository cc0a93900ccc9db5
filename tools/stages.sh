# Sourced by ./quickstart, ./check and .ci/run: names the stage that runs, and knows what each took.
#   stage NAME COMMAND...   runs it; where it fails, the shell says in which stage and ends
#   stage_times             prints the seconds of each stage so far, and of all: how long it took,
#                           and what processors worked in it
stage_lines=()
stage_current=start
trap 'echo "=== FAILED in stage: $stage_current" >&2' ERR
set -o errtrace

# Of this shell and of all that it has waited for.
processor_seconds() {
  awk -v ticks="$(getconf CLK_TCK)" \
    '{ sub(/.*\) /, ""); printf "%d", ($12 + $13 + $14 + $15) / ticks }' "/proc/$$/stat"
}

stage_line() {
  printf '%6d s %6d s  %s' "$1" "$2" "$3"
}

stage() {
  local start=$SECONDS worked
  worked=$(processor_seconds)
  stage_current=$1
  shift
  "$@"
  stage_lines+=("$(stage_line $((SECONDS - start)) $(($(processor_seconds) - worked)) \
    "$stage_current")")
}

stage_times() {
  printf '%8s %8s\n' took worked
  printf '%s\n' "${stage_lines[@]}"
  stage_line "$SECONDS" "$(processor_seconds)" all
  printf '\n'
}
