#include "ir/explain/memory_chart.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ir/graph/bodies.h"
#include "runtime/base/align.h"
#include "runtime/base/cat.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

constexpr size_t kColumns = 72, kRows = 8, kLines = 12;

std::string bytes_text(int64_t bytes) { return format_bytes(static_cast<uint64_t>(bytes)); }

// For each node of a part: bytes that its own arena holds then.
std::vector<int64_t> in_use(const PlannedPart& part) {
  std::vector<int64_t> bytes(part.function->nodes.size() + 1, 0);
  for (const ArenaUse& use : part.plan->uses) {
    bytes[use.first] += use.bytes;
    bytes[use.last + 1] -= use.bytes;
  }
  for (size_t node = 1; node < bytes.size(); ++node) bytes[node] += bytes[node - 1];
  bytes.pop_back();
  return bytes;
}

class Arena {
 public:
  explicit Arena(const std::vector<PlannedPart>& parts) : parts_(parts) {
    for (size_t part = 0; part < parts.size(); ++part) index_[parts[part].function] = part;
  }

  std::vector<ArenaStep> steps() {
    walk(parts_.size() - 1, 0, 1);
    return std::move(steps_);
  }

  // The nodes around a step, the outermost first; each with the part that it is of.
  struct Level {
    size_t part = 0;
    NodeId node = kNone;
  };
  std::vector<Level> path_to(const ArenaStep& step) const {
    std::vector<Level> path;
    find(parts_.size() - 1, step, path);
    return path;
  }

  // The body that a node runs; parts_.size(): none.
  size_t body_of(size_t part, NodeId id) const {
    const Node& node = parts_[part].function->nodes[id];
    if (node.body == nullptr || !shares_body(node.op)) return parts_.size();
    return index_.at(node.body.get());
  }

 private:
  void walk(size_t part, int64_t around, int64_t length) {
    const std::vector<int64_t> bytes = in_use(parts_[part]);
    for (NodeId id = 0; id < bytes.size(); ++id) {
      const size_t body = body_of(part, id);
      if (body == parts_.size()) {
        steps_.push_back({part, id, around + bytes[id], length});
        continue;
      }
      const int64_t arena = align_up(parts_[body].plan->arena_bytes, kArenaAlignment);
      const ScanLayout layout(parts_[part].function->nodes[id]);
      walk(body, around + bytes[id] - arena, length * layout.length);
    }
  }

  bool find(size_t part, const ArenaStep& step, std::vector<Level>& path) const {
    if (part == step.part) {
      path.push_back({part, step.node});
      return true;
    }
    for (NodeId id = 0; id < parts_[part].function->nodes.size(); ++id) {
      const size_t body = body_of(part, id);
      if (body == parts_.size()) continue;
      path.push_back({part, id});
      if (find(body, step, path)) return true;
      path.pop_back();
    }
    return false;
  }

  const std::vector<PlannedPart>& parts_;
  std::map<const Function*, size_t> index_;
  std::vector<ArenaStep> steps_;
};

// The most in use among the steps of each column.
std::vector<int64_t> columns_of(const std::vector<ArenaStep>& steps) {
  std::vector<int64_t> columns(std::min(kColumns, steps.size()), 0);
  for (size_t i = 0; i < steps.size(); ++i) {
    int64_t& column = columns[i * columns.size() / steps.size()];
    column = std::max(column, steps[i].bytes);
  }
  return columns;
}

// "[3  ]": where a loop of 3 lies, of whole columns.
std::string loops_line(const std::vector<ArenaStep>& steps, size_t columns) {
  std::string line(columns, ' ');
  for (size_t begin = 0; begin < steps.size();) {
    size_t end = begin;
    while (end < steps.size() && steps[end].length == steps[begin].length) ++end;
    const size_t first = begin * columns / steps.size(), last = (end - 1) * columns / steps.size();
    const std::string times = std::to_string(steps[begin].length);
    if (steps[begin].length > 1 && last - first > times.size()) {
      line[first] = '[';
      line.replace(first + 1, times.size(), times);
      line[last] = ']';
    }
    begin = end;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string drawn(const std::vector<ArenaStep>& steps, int64_t most) {
  static constexpr std::array<const char*, 9> kBlocks = {" ", "▁", "▂", "▃", "▄",
                                                         "▅", "▆", "▇", "█"};
  constexpr int64_t kEighths = 8;
  const std::vector<int64_t> columns = columns_of(steps);
  std::string text;
  for (size_t row = kRows; row-- > 0;) {
    const std::string label = row + 1 == kRows ? bytes_text(most) : "";
    std::string line;
    for (const int64_t bytes : columns) {
      const int64_t eighths = (bytes * int64_t{kRows} * kEighths + most - 1) / most;
      const int64_t here =
          std::clamp<int64_t>(eighths - static_cast<int64_t>(row) * kEighths, 0, 8);
      line += kBlocks[static_cast<size_t>(here)];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += cat("  ", label, std::string(11 - std::min<size_t>(label.size(), 11), ' '), "|", line,
                "\n");
  }
  text += cat("  0 B        +", std::string(columns.size(), '-'), "\n");
  const std::string loops = loops_line(steps, columns.size());
  return cat(text, "              ", loops, loops.empty() ? "" : "\n              ", steps.size(),
             " nodes", loops.empty() ? "" : "; [N]: a loop of N, drawn once", "\n");
}

// Values of one line of the user's that hold memory at a step.
struct Line {
  int64_t bytes = 0;
  size_t values = 0;
  bool has_scratch = false;
  std::set<std::string> ops;
};

std::map<std::string, Line> holders(const std::vector<PlannedPart>& parts, const Arena& arena,
                                    const ArenaStep& step) {
  std::map<std::string, Line> lines;
  for (const Arena::Level& level : arena.path_to(step)) {
    const Function& function = *parts[level.part].function;
    const std::vector<NodeId> makers = producers(function);
    for (const ArenaUse& use : parts[level.part].plan->uses) {
      if (use.first > level.node || use.last < level.node) continue;
      const NodeId maker = use.value == kNone ? use.first : makers[use.value];
      const size_t body = arena.body_of(level.part, maker);
      int64_t bytes = use.bytes;
      // The body's own values are counted at its level.
      if (use.value == kNone && body < parts.size())
        bytes -= align_up(parts[body].plan->arena_bytes, kArenaAlignment);
      if (bytes == 0) continue;
      Line& line = lines[where(function, maker)];
      line.bytes += bytes;
      line.values += use.value == kNone ? 0 : 1;
      line.has_scratch = line.has_scratch || use.value == kNone;
      line.ops.insert(std::string(to_string(function.nodes[maker].op)));
    }
  }
  return lines;
}

std::string line_text(const std::string& name, const Line& line) {
  std::string ops;
  for (const std::string& op : line.ops) ops += cat(ops.empty() ? "" : ", ", op);
  std::string what;
  if (line.values > 0) what = cat(line.values, line.values == 1 ? " value" : " values");
  if (line.has_scratch) what += what.empty() ? "scratchpad" : " and scratchpad";
  const std::string bytes = bytes_text(line.bytes);
  return cat("  ", std::string(10 - std::min<size_t>(bytes.size(), 10), ' '), bytes, "  ", name,
             ": ", what, " of ", ops, "\n");
}

std::string holders_text(const std::map<std::string, Line>& lines) {
  std::vector<std::pair<std::string, Line>> sorted(lines.begin(), lines.end());
  std::ranges::stable_sort(
      sorted, [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::string text;
  int64_t rest = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i < kLines) {
      text += line_text(sorted[i].first, sorted[i].second);
    } else {
      rest += sorted[i].second.bytes;
    }
  }
  if (sorted.size() > kLines)
    text += cat("  and ", bytes_text(rest), " of ", sorted.size() - kLines, " other lines\n");
  return text;
}

}  // namespace

std::vector<ArenaStep> arena_steps(const std::vector<PlannedPart>& parts) {
  return Arena(parts).steps();
}

std::string memory_chart(const std::vector<PlannedPart>& parts) {
  Arena arena(parts);
  const std::vector<ArenaStep> steps = arena.steps();
  const auto peak = std::ranges::max_element(
      steps, [](const ArenaStep& a, const ArenaStep& b) { return a.bytes < b.bytes; });
  if (peak == steps.end() || peak->bytes == 0) return "arena 0 B: nothing lies in it\n";
  const Function& function = *parts[peak->part].function;
  const Node& node = function.nodes[peak->node];
  return cat("arena ", bytes_text(parts.back().plan->arena_bytes), ", ", bytes_text(peak->bytes),
             " of it in use at once\n", drawn(steps, peak->bytes), "most at ", to_string(node.op),
             node.results > 0 ? cat(" of ", to_string(function.types[node.first_result])) : "",
             " (", where(function, peak->node), "), where it is held by\n",
             holders_text(holders(parts, arena, *peak)));
}

}  // namespace gangway
