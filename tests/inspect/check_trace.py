"""Reads a Chrome trace as its viewers do, and checks what they rely on.

check_trace.py FILE   prints one JSON object that says what the trace holds, or what is wrong and
exits with 1.
"""
import collections
import json
import sys

EPSILON = 0.0015  # Times are written in units of 0.001 us.


def require(condition, *what):
    if not condition:
        sys.exit("trace: " + " ".join(map(str, what)))


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_lane(lane, events):
    """In order, and each span inside those that are open, or behind them."""
    open_until = []
    last = 0
    for event in events:
        begin, end = event["ts"], event["ts"] + event.get("dur", 0)
        require(begin >= last, lane, "is not in order at", event)
        last = begin
        while open_until and open_until[-1] <= begin + EPSILON:
            open_until.pop()
        require(not open_until or end <= open_until[-1] + EPSILON, lane, "overlaps at", event)
        open_until.append(end)


with open(sys.argv[1], encoding="utf-8") as file:
    trace = json.load(file)
names, order = {}, {}
lanes = collections.defaultdict(list)
begun, ended = {}, []
counters = collections.defaultdict(list)
meetings = collections.defaultdict(list)
for event in trace["traceEvents"]:
    require(event["ph"] in "MXiC", "there is an event of another kind:", event)
    require(isinstance(event["pid"], int) and isinstance(event["name"], str), event)
    if event["ph"] == "M":
        key = (event["pid"], event["tid"])
        if event["name"].endswith("_name"):
            names[event["name"], *key] = event["args"]["name"]
        else:
            order[event["name"], *key] = event["args"]["sort_index"]
        continue
    require(is_number(event["ts"]) and event["ts"] >= 0, "no time:", event)
    if event["ph"] == "C":
        require(event["args"] and all(map(is_number, event["args"].values())), "no number:", event)
        counters[event["pid"], event["name"]].append((event["ts"], event["args"]["value"]))
        continue
    require(event["ph"] == "i" or event["dur"] >= 0, "ends before it begins:", event)
    lane = (event["pid"], event["tid"])
    lanes[lane].append(event)
    if "bind_id" in event:
        require(event.get("flow_in") != event.get("flow_out"), "an arrow without an end:", event)
        if event.get("flow_out"):
            require(event["bind_id"] not in begun, "two arrows have one id:", event)
            begun[event["bind_id"]] = event["ts"]
        else:
            ended.append((event["bind_id"], event["ts"]))
    if "meeting" in event["args"]:
        meetings[event["name"], event["args"]["meeting"]].append(lane)
for lane, events in lanes.items():
    require(("process_name", lane[0], 0) in names, "a process without a name:", lane)
    require(("thread_name", *lane) in names, "a lane without a name:", lane)
    require(("thread_sort_index", *lane) in order, "a lane without a place:", lane)
    check_lane(names[("thread_name", *lane)], events)
for (pid, name), values in counters.items():
    require(values == sorted(values, key=lambda value: value[0]), name, "is not in order")
for arrow, time in ended:
    require(arrow in begun, "an arrow ends that has not begun:", arrow)
    require(begun[arrow] <= time + EPSILON, "an arrow leads back in time:", arrow)
require(set(begun) == {arrow for arrow, _ in ended}, "arrows that do not end:",
        sorted(set(begun) - {arrow for arrow, _ in ended})[:3])
for meeting, parts in meetings.items():
    require(len(set(parts)) == len(parts), "a lane takes part twice:", meeting)
print(json.dumps({
    "processes": [name for (kind, *_), name in
                  sorted(names.items(), key=lambda item: (order.get(
                      (item[0][0].replace("name", "sort_index"), *item[0][1:]), 0), item[1]))
                  if kind == "process_name"],
    "lanes": sorted(names["thread_name", *lane] for lane in lanes),
    "counters": sorted({name for _, name in counters}),
    "arrows": len(ended),
    "meetings": sorted({len(parts) for parts in meetings.values()}),
    "events": sum(map(len, lanes.values())) + sum(map(len, counters.values())),
}))
