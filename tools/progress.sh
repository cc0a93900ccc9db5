# Sourced by ./quickstart: runs long commands behind one line that shows their progress.
#   with_progress WHAT COMMAND...   on a terminal one line, brought up to date; elsewhere a line at
#                                   the start and at each quarter
# Percentages are read from the output of ninja ("[12/272] ...") and apt
# ("pmstatus:package:12.5:..."). The command's output goes to $progress_log, and if it fails its end
# goes to the terminal.

show_progress() {
  local percent=$2
  local line=$1
  if [ "$percent" -gt 0 ]; then
    line+=", $percent %"
  fi
  if [ -t 1 ]; then
    printf '\r\033[K%s' "$line"
  elif [ "$percent" -ge "$progress_next" ]; then
    printf '%s\n' "$line"
    progress_next=$((percent / 25 * 25 + 25))
  fi
}

follow_progress() {
  local what=$1 line percent=0
  progress_next=0
  show_progress "$what" 0
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$progress_log"
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      percent=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    elif [[ $line =~ ^dlstatus:[^:]*:([0-9]+) ]]; then
      percent=$((BASH_REMATCH[1] / 2))  # First all are fetched, then all installed.
    elif [[ $line =~ ^pmstatus:[^:]*:([0-9]+) ]]; then
      percent=$((50 + BASH_REMATCH[1] / 2))
    fi
    show_progress "$what" "$percent"
  done
}

with_progress() {
  local what=$1 status=0 lines follower
  shift
  exec {lines}> >(follow_progress "$what")
  follower=$!
  "$@" >&"$lines" 2>&1 || status=$?
  exec {lines}>&-
  wait "$follower"  # Until the last line is shown.
  if [ -t 1 ]; then
    printf '\r\033[K'
  fi
  if [ "$status" != 0 ]; then
    echo "$what: failed; the last lines of $progress_log:" >&2
    tail -n 30 "$progress_log" >&2
    return "$status"
  fi
}
