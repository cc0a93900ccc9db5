#include "tests/emulated/shadow.h"

namespace gangway::emulated {

// The cell that begins at `at`.
Shadow::Cells::iterator Shadow::split(int64_t at) {
  auto after = cells_.upper_bound(at);
  auto cell = std::prev(after);
  if (cell->first == at) return cell;
  const int64_t end = cell->second.end;
  if (at >= end) return after;
  cell->second.end = at;
  Cell right = cell->second;
  right.end = end;
  return cells_.emplace_hint(after, at, std::move(right));
}

std::optional<Shadow::Conflict> Shadow::access(int64_t begin, int64_t end, bool writes, Stamp now,
                                               const VectorClock& clock) {
  if (begin >= end) return {};
  std::optional<Conflict> found;
  const auto first = split(begin);
  const auto last = split(end);
  for (auto it = first; it != last; ++it) {
    Cell& cell = it->second;
    if (!found && !clock.after(cell.write)) found = Conflict{cell.write, true, it->first};
    if (writes) {
      for (const Stamp& read : cell.reads) {
        if (!found && !clock.after(read)) found = Conflict{read, false, it->first};
      }
    } else {
      std::erase_if(cell.reads, [&](const Stamp& read) { return clock.after(read); });
      cell.reads.push_back(now);
    }
  }
  if (writes) {
    cells_.erase(std::next(first), last);
    first->second = {.end = end, .write = now, .reads = {}};
  }
  return found;
}

}  // namespace gangway::emulated
