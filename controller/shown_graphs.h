// ShownGraphs: shows what a program has compiled: its graph as it was sent and as it was lowered,
// why it was lowered so, and the last events on its devices.
//
// Example:
//   ShownGraph shown = graphs.graph(session, {.executable = "step", .why = "loss"});
//
// The answer to "why" takes a compilation, on the compiler's threads; what that has recorded is
// kept for the plans that somebody asked about last (plans/kept_records.h).
//
// Threads: the reactor's thread. bytes_of(), timeline() and, for a question why, graph() suspend;
// the program may end meanwhile, and the answer is complete all the same.
// Ownership: the constructor's arguments outlive it. Results own what they show.
// Errors: kUnavailable for a session that is closed; kInvalid for a request that fits no
// executable, or several and names none.
// Cost: O(executables of the program), and a compilation for the first question why about a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/plans/kept_records.h"
#include "controller/programs/program_table.h"

namespace gangway {

// An executable that can be shown.
struct ShownPlan {
  PlanId plan;
  std::string name;  // The executable's name, or its program's if it has none.
};

// Chooses an executable of a program; without a name and a plan: its only one.
struct GraphRequest {
  std::string executable;
  PlanId plan;
  std::string why;       // A question for ir/explain/why.h. Empty: none.
  std::string asked_by;  // The owner whose turn on the compiler's threads the answer takes.
};
struct ShownGraph {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Plan> plan;
  std::vector<std::string> kinds, placed;  // For each slice: kind of devices; why it lies there.
  std::string text;                        // The answer to GraphRequest::why.
};

// A program and its plan in their wire forms.
struct GraphBytes {
  std::vector<std::byte> program, plan;
};

// The last events on an executable's devices, also those of other programs.
struct ShownTimeline {
  ShownGraph graph;
  PlanId on_hosts;                      // The plan's id in the traces.
  std::vector<HostTimeline> hosts;      // From the hosts that answered; the trace names the host.
  std::map<std::string, Error> silent;  // Why a host, by its name, sent none.
};

class ShownGraphs {
 public:
  ShownGraphs(SharedTables& tables, const ProgramTable& programs)
      : tables_(tables), programs_(programs) {}
  ShownGraphs(const ShownGraphs&) = delete;

  // Executables in the order in which they were compiled.
  std::vector<ShownPlan> plans(SessionId session) const;
  ShownGraph graph(SessionId session, const GraphRequest& request);
  GraphBytes bytes_of(const ShownGraph& graph, const std::string& asked_by);
  // The newest `events_max` events of each device, from the hosts that are not lost meanwhile.
  // `request.why` is not answered.
  ShownTimeline timeline(SessionId session, const GraphRequest& request, uint32_t events_max);
  const KeptRecords& records() const { return records_; }

 private:
  const PlanRecord& chosen(SessionId session, const GraphRequest& request) const;
  ShownGraph of(const PlanRecord& shown) const;

  SharedTables& tables_;
  const ProgramTable& programs_;
  KeptRecords records_;
};

}  // namespace gangway
