#include "tests/sim/history/model.h"

#include <algorithm>
#include <set>
#include <vector>

#include "runtime/base/cat.h"

namespace gangway::history {
namespace {

int64_t mixed(int64_t value, int64_t factor, int64_t x) { return (value * factor + x) % kModulus; }

// One possible sequence of steps of the program.
struct Branch {
  std::vector<int64_t> traces = {0};  // Traces by version.
  std::map<std::string, int64_t> own;
  size_t repeated_from = 0;  // The version before the repetition that was begun last.

  void run(const std::string& executable, int64_t x) {
    traces.push_back(mixed(traces.back(), 31, x));
    if (executable == kStep) return;
    int64_t& value = own[own_state(executable)];
    value = mixed(value, 3, x);
  }
  Values at(size_t version) const {
    return {{"count", static_cast<int64_t>(version)}, {"trace", traces[version]}};
  }
  Values now() const {
    Values values = at(traces.size() - 1);
    values.insert(own.begin(), own.end());
    return values;
  }
};

bool fits(const Values& seen, const Values& expected) {
  return std::ranges::all_of(seen, [&](const auto& value) {
    const auto found = expected.find(value.first);
    return found != expected.end() && found->second == value.second;
  });
}

// The values that an operation with a result must have in this branch; none if no values fit.
std::optional<Values> shown(const Branch& branch, const Op& op) {
  size_t version = branch.traces.size() - 1;
  if (op.kind == OpKind::kRun || op.kind == OpKind::kRead) return branch.now();
  if (op.kind == OpKind::kStatus) version = branch.repeated_from + static_cast<size_t>(op.done);
  if (op.kind == OpKind::kSnapshot) {
    const auto count = op.seen.find("count");
    if (count != op.seen.end()) version = static_cast<size_t>(count->second);
    if (op.version >= 0) version = static_cast<size_t>(op.version);
  }
  if (op.kind == OpKind::kCheckpoint) version = static_cast<size_t>(op.seen.at("count"));
  if (version >= branch.traces.size()) return std::nullopt;
  return branch.at(version);
}

class Follower {
 public:
  Follower(const History& history, std::string program)
      : history_(history), program_(std::move(program)) {}

  std::optional<Misfit> misfit() {
    for (const Op& op : history_.ops()) {
      if (op.program != program_ || op.kind == OpKind::kSnapshot) continue;
      step(op);
      if (auto found = look(op)) return found;
    }
    for (const Op& op : history_.ops()) {
      if (op.program != program_ || op.kind != OpKind::kSnapshot) continue;
      if (auto found = look(op)) return found;
    }
    return older();
  }

 private:
  void step(const Op& op) {
    switch (op.kind) {
      case OpKind::kCompile:
        for (Branch& branch : branches_) branch.own[own_state(op.executable)] = 0;
        return;
      case OpKind::kRelease:
        for (Branch& branch : branches_) branch.own.erase(own_state(op.executable));
        return;
      case OpKind::kRun:
        if (op.outcome == Outcome::kTold) return run(op, 1, 1);
        return run(op, 0, op.outcome == Outcome::kNotDone ? 0 : 1);
      case OpKind::kRepeat:
        for (Branch& branch : branches_) {
          branch.repeated_from = branch.traces.size() - 1;
          last_versions_.insert(static_cast<int64_t>(branch.repeated_from) + op.steps);
        }
        if (op.outcome == Outcome::kTold) return run(op, op.done, op.done);
        return run(op, 0, op.outcome == Outcome::kNotDone ? 0 : op.steps);
      case OpKind::kStatus:
      case OpKind::kRead:
      case OpKind::kCheckpoint:
      case OpKind::kSnapshot: return;
    }
  }

  // Extends each branch by `least` to `most` runs.
  void run(const Op& op, int64_t least, int64_t most) {
    std::vector<Branch> next;
    for (Branch& branch : branches_) {
      for (int64_t i = 0; i <= most; ++i) {
        if (i >= least) next.push_back(branch);
        if (i < most) branch.run(op.executable, op.x + i);
      }
    }
    branches_ = std::move(next);
  }

  // Keeps the branches that fit the operation's result.
  std::optional<Misfit> look(const Op& op) {
    if (op.outcome != Outcome::kTold) return std::nullopt;
    if (op.kind == OpKind::kCompile || op.kind == OpKind::kRelease) return std::nullopt;
    const auto shows = [&](const Branch& branch) {
      const auto values = shown(branch, op);
      return values && fits(op.seen, *values);
    };
    if (std::ranges::any_of(branches_, shows)) {
      if (branches_.size() > 1)
        std::erase_if(branches_, [&](const Branch& branch) { return !shows(branch); });
      return std::nullopt;
    }
    const Branch& last = branches_.back();
    const auto expected = shown(last, op);
    std::string why = !expected
                          ? cat("there is no such version; the newest is ", last.traces.size() - 1)
                          : cat("expected ", to_string(*expected));
    if (branches_.size() > 1) why += cat(", or one of ", branches_.size() - 1, " others");
    return Misfit{program_, op.number, why};
  }

  // An operation that saw an older version than another one had seen before it began.
  std::optional<Misfit> older() const {
    for (const Op& op : history_.ops()) {
      const bool is_latest = op.kind == OpKind::kSnapshot && op.version < 0;
      if (op.program != program_ || op.outcome != Outcome::kTold) continue;
      if (op.kind != OpKind::kStatus && op.kind != OpKind::kRead && !is_latest) continue;
      for (const Op& other : history_.ops()) {
        const bool is_before =
            other.program == program_ && other.outcome == Outcome::kTold && other.ended < op.begun;
        if (is_before && is_less(op, other))
          return Misfit{program_, op.number,
                        cat("that is older than what was told in #", other.number,
                            " before it was asked for")};
      }
    }
    return std::nullopt;
  }

  bool is_less(const Op& op, const Op& than) const {
    const bool is_of_another = op.controller != than.controller;
    if (is_of_another && than.kind != OpKind::kCheckpoint) return false;
    if (is_of_another && last_versions_.contains(count_of(than))) return false;
    if (op.kind != OpKind::kStatus) return count_of(op) < count_of(than);
    // The repetition's newest step may be older than later runs.
    if (than.kind == OpKind::kStatus) return is_same_repetition(than, op) && op.done < than.done;
    const bool has_gone_on = than.kind == OpKind::kCheckpoint && !op.seen.empty();
    return has_gone_on && is_same_repetition(than, op) && count_of(op) < count_of(than);
  }
  static int64_t count_of(const Op& op) {
    const auto count = op.seen.find("count");
    return count == op.seen.end() ? -1 : count->second;
  }
  bool is_same_repetition(const Op& first, const Op& second) const {
    return std::ranges::none_of(history_.ops(), [&](const Op& op) {
      return op.program == program_ && op.kind == OpKind::kRepeat && op.begun > first.ended &&
             op.begun < second.begun;
    });
  }

  const History& history_;
  const std::string program_;
  std::vector<Branch> branches_ = std::vector<Branch>(1);
  std::set<int64_t> last_versions_;  // The last version that each repetition was asked for.
};

}  // namespace

std::optional<Misfit> find_misfit(const History& history) {
  std::set<std::string> programs;
  for (const Op& op : history.ops()) programs.insert(op.program);
  for (const std::string& program : programs) {
    if (auto misfit = Follower(history, program).misfit()) return misfit;
  }
  return std::nullopt;
}

std::string explain(const History& history, const Misfit& misfit) {
  return cat(history.print(misfit.program, misfit.op), "#", misfit.op,
             " does not fit: ", misfit.why);
}

}  // namespace gangway::history
