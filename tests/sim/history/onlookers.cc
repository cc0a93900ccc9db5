#include "tests/sim/history/onlookers.h"

#include <iterator>

#include "tests/sim/sim_time.h"

namespace gangway::history {
namespace {

constexpr int kReadsMax = 100, kSuspensionsMax = 12;

std::string any_program(const Stage& stage, Rng& rng) {
  return std::next(stage.programs.begin(),
                   static_cast<std::ptrdiff_t>(rng.below(stage.programs.size())))
      ->first;
}

// Reads a version that comes soon, or the latest.
void read_once(Stage& stage, Rng& rng, const SharedStates& states, const std::string& program,
               int64_t& newest) {
  const bool is_latest = rng.chance(0.6);
  const int64_t version = is_latest ? -1 : newest + 1 + static_cast<int64_t>(rng.below(8));
  const size_t op =
      stage.history.begin({.kind = OpKind::kSnapshot, .program = program, .version = version});
  try {
    const std::vector<std::string> names = {"count", "trace"};
    const Snapshot snapshot =
        is_latest ? states.latest(names) : states.at(static_cast<uint64_t>(version), names);
    newest = static_cast<int64_t>(snapshot.version());
    const int64_t count = value_of(snapshot.read("count"));
    stage.history.told(op, {{"count", count}, {"trace", value_of(snapshot.read("trace"))}});
    // The snapshot's number must be the version of its states.
    if (count != newest) stage.problem(program, cat("#", op, " is called version ", newest));
  } catch (const Error& why) {
    stage.history.unknown(op, why.message());
    if (why.kind() != ErrorKind::kInvalid) throw;
    ++newest;  // The version was past.
  }
}

}  // namespace

void read_along(Stage& stage, Rng rng) {
  Pauses pauses;
  for (int reads = 0; reads < kReadsMax && !stage.is_over();) {
    try {
      const std::string program = any_program(stage, rng);
      const Client client = stage.connect("reader");
      const SharedStates states = client.open_states(program);
      int64_t newest = 0;
      const int times = 1 + static_cast<int>(rng.below(8));
      for (int i = 0; i < times && !stage.is_over(); ++i) {
        ++reads;
        read_once(stage, rng, states, program, newest);
        pauses.begin_again();
        stage.pass_up_to(rng, 3 * kMillisecond);
      }
    } catch (const Error&) {  // There is no such program yet, or no more.
    }
    stage.pass_up_to(rng, pauses.next_ns());
  }
}

void suspend_at_random(Stage& stage, Rng rng) {
  Pauses pauses;
  for (int times = 0; times < kSuspensionsMax && !stage.is_over();) {
    stage.pass_up_to(rng, pauses.next_ns());
    try {
      const std::string program = any_program(stage, rng);
      const Client client = stage.connect("suspender");
      client.suspend_program(program);
      ++times;
      pauses.begin_again();
      Pauses tries;
      while (true) {
        stage.pass_up_to(rng, tries.next_ns());
        try {
          client.resume_program(program);
          break;
        } catch (const Error& why) {
          if (why.kind() != ErrorKind::kOverloaded) throw;
        }
      }
    } catch (const Error&) {  // There is no such program yet, or no more.
    }
  }
}

}  // namespace gangway::history
