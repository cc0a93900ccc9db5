#include "tests/sim/history/history.h"

#include <algorithm>

#include "runtime/base/cat.h"
#include "runtime/base/error.h"

namespace gangway::history {
namespace {

std::string asked(const Op& op) {
  switch (op.kind) {
    case OpKind::kCompile: return cat("compile ", op.executable);
    case OpKind::kRelease: return cat("release ", op.executable);
    case OpKind::kRun: return cat("run ", op.executable, " with x = ", op.x);
    case OpKind::kRepeat:
      return cat("repeat ", op.executable, " ", op.steps, " times from x = ", op.x);
    case OpKind::kStatus: return "look at the repetition";
    case OpKind::kRead: return "read the states";
    case OpKind::kSnapshot:
      return op.version < 0 ? std::string("read the latest version")
                            : cat("read version ", op.version);
    case OpKind::kCheckpoint: return "look for the newest checkpoint";
  }
  return "?";
}

}  // namespace

std::string to_string(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += cat(text.empty() ? "" : ", ", name, " = ", value);
  return text;
}

std::string to_string(const Op& op) {
  std::string text = cat("#", op.number, " ", op.program, ": ", asked(op), ": ");
  switch (op.outcome) {
    case Outcome::kOpen: return text + "has not ended";
    case Outcome::kNotDone: return text + "not done: " + op.why;
    case Outcome::kUnknown: return text + "nobody knows: " + op.why;
    case Outcome::kTold: break;
  }
  if (op.kind == OpKind::kRepeat || op.kind == OpKind::kStatus)
    text += cat(op.done, " steps are done", op.seen.empty() ? "" : ", ");
  else if (op.seen.empty())
    text += "done";
  return text + to_string(op.seen);
}

size_t History::begin(Op op) {
  op.number = ops_.size();
  op.begun = ++clock_;
  op.controller = controller_;
  ops_.push_back(std::move(op));
  return ops_.back().number;
}

Op& History::end(size_t number, Outcome outcome) {
  Op& op = ops_.at(number);
  GW_REQUIRE(op.outcome == Outcome::kOpen, "history: operation ", number, " has ended already");
  op.outcome = outcome;
  op.ended = ++clock_;
  return op;
}

void History::told(size_t number, Values seen, int64_t done) {
  Op& op = end(number, Outcome::kTold);
  op.seen = std::move(seen);
  op.done = done;
}

void History::not_done(size_t number, const std::string& why) {
  end(number, Outcome::kNotDone).why = why;
}

void History::unknown(size_t number, const std::string& why) {
  end(number, Outcome::kUnknown).why = why;
}

void History::all_unknown(const std::string& program, const std::string& why) {
  for (const Op& op : ops_) {
    if (op.program == program && op.kind != OpKind::kSnapshot && op.outcome == Outcome::kOpen)
      unknown(op.number, why);
  }
}

std::string History::print(const std::string& program, size_t last, size_t lines) const {
  std::vector<std::string> printed;
  for (const Op& op : ops_) {
    if (op.program == program && op.number <= last) printed.push_back(to_string(op));
  }
  const size_t first = printed.size() - std::min(printed.size(), lines);
  std::string text = first == 0 ? "" : cat("(", first, " before)\n");
  for (size_t i = first; i < printed.size(); ++i) text += printed[i] + "\n";
  return text;
}

}  // namespace gangway::history
