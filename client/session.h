// Session: the client's side of a connection to a controller, on the reactor.
//
// It sends frames for runs, puts and gets and uses RPC for the rest (protocol/). It completes what
// the user's handles wait for; when the controller is gone, all of that fails with kUnavailable.
//
// Threads: the reactor's thread, but for what is done at the desk; calls that begin with
// "Suspends." may wait. The completions given to it run there too, and must not suspend.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/reports.h"
#include "client/run_desk.h"
#include "ir/graph/program.h"
#include "protocol/messages.h"
#include "protocol/slice_shape.h"
#include "runtime/fibers/reactor.h"
#include "runtime/net/transport.h"

namespace gangway::internal {

struct PlanPort {
  std::string name;
  Type type;
};

struct CompiledPlan {
  PlanId plan;
  uint64_t scope = 0;
  std::vector<PlanPort> inputs, outputs, states;
  uint32_t sources = 0;
  std::string text;
  MemoryReport memory;
};

class Session {
 public:
  using CopyDone = std::function<void(const std::optional<Error>&)>;

  struct Options {
    std::string name;
    Share share;
    int64_t timeout_ms = 10'000;
    std::string token_file;  // As ConnectOptions.
    std::function<void(const std::string& line)> on_warning;
  };
  // Suspends.
  Session(Reactor& reactor, Network& network, const std::string& address, const Options& options);
  ~Session();

  // Ends all that is under way with kCancelled and drops the connection; later calls end with
  // kCancelled too. Suspends.
  void close();
  static Error closed_error();

  uint64_t id() const;
  // How many runs, and how many copies, may be submitted that have not ended.
  int64_t run_credits() const;
  int64_t copy_credits() const;

  // Suspends.
  uint64_t allocate(const SliceShape& shape);
  void release_slice(uint64_t slice);
  // Suspends.
  CompiledPlan compile(const Program& program, const std::vector<uint64_t>& slices,
                       const CompileOptions& options);
  void release_plan(PlanId plan);
  // Suspends.
  ClusterStatus status();
  // Suspends.
  void set_share(const Share& share);
  // What is said there, one report after another, until nothing new is.
  void send_reports(std::shared_ptr<Reports> reports);
  // Tells the user, as what the controller warns of.
  void warn(const std::string& line) const;

  void run(const RunFrame& frame, RunDone done);
  // Where other threads send runs and let arrays go; it outlives the session.
  const std::shared_ptr<RunDesk>& desk() const { return desk_; }
  void cancel(RunId run, const Error& why);
  void copy(CopyFrame frame, CopyDone done);
  void free(ArrayId array);

 private:
  class Impl;
  std::shared_ptr<Impl> open() const;

  std::shared_ptr<RunDesk> desk_;
  std::shared_ptr<Impl> impl_;  // Null once closed. A call under way shares it.
};

}  // namespace gangway::internal
