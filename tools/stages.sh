# Sourced by ./quickstart, ./check and .ci/run: names the stage that runs, and knows what each took.
#   stage NAME COMMAND...   runs it; where it fails, the shell says in which stage and ends
#   stage_times             prints the seconds of each stage so far, and of all
stage_lines=()
stage_current=start
trap 'echo "=== FAILED in stage: $stage_current" >&2' ERR
set -o errtrace

stage() {
  local start=$SECONDS
  stage_current=$1
  shift
  "$@"
  stage_lines+=("$(printf '%6d s  %s' $((SECONDS - start)) "$stage_current")")
}

stage_times() {
  printf '%s\n' "${stage_lines[@]}"
  printf '%6d s  all\n' "$SECONDS"
}
