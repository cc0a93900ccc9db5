#!/usr/bin/env bash
# Counts with callgrind the instructions of a run in Gangway's own functions, and compares with
# counts.txt.
#   tests/ratchet/run_counts.sh PROGRAM            fails where a count grew by more than 2 %, and
#                                                  says where one shrank by as much
#   tests/ratchet/run_counts.sh PROGRAM --accept   writes the counts of now to counts.txt
set -euo pipefail
program=$1
expected=$(dirname "$0")/counts.txt
counted=$(mktemp -d)
trap 'rm -rf "$counted"' EXIT

valgrind --tool=callgrind --instr-atstart=no --collect-atstart=no --compress-strings=no \
  --compress-pos=no --callgrind-out-file="$counted/out" "$program" >"$counted/log" 2>&1 || {
  cat "$counted/log"
  exit 1
}

# Writes the name of each case and the instructions of a run. The line after "calls=" counts the
# called function, which has lines of its own.
for file in $(ls -v "$counted"/out.*); do
  awk '
    /^desc: Trigger: Client Request: / {
      sub(/^desc: Trigger: Client Request: /, "")
      split($0, label, " / ")
    }
    /^fn=/ { is_ours = /gangway::/ && !/ratchet::/ }
    /^calls=/ { getline; next }
    /^[0-9]/ && is_ours { sum += $2 }
    END { if (label[2] > 0) printf "%9.0f  %s\n", sum / label[2], label[1] }
  ' "$file"
done >"$counted/now"
if [ "${2:-}" = --accept ]; then
  { sed -n '/^#/p' "$expected"; cat "$counted/now"; } >"$counted/new"
  cp "$counted/new" "$expected"
  cat "$expected"
  exit
fi

awk -v accept="$0 $program --accept" '
  { name = $0; sub(/^ *[0-9]+ +/, "", name) }
  /^#/ { next }
  FILENAME == ARGV[1] { before[name] = $1; next }
  {
    seen[name] = 1
    change = name in before ? 100 * ($1 - before[name]) / before[name] : 100
    printf "%9d  %+6.2f %%  %s\n", $1, change, name
    grew += change > 2
    shrank += change < -2
  }
  END {
    for (name in before) if (!(name in seen)) { print "not counted: " name; grew = 1 }
    if (grew) print "Over 2 % more instructions than counts.txt says. If that is meant:"
    if (!grew && shrank) print "Over 2 % fewer instructions than counts.txt says. To keep it so:"
    if (grew || shrank) print "  " accept
    exit grew ? 1 : 0
  }
' "$expected" "$counted/now"
