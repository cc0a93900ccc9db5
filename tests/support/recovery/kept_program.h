// A program with checkpoints on one of three hosts of two devices each, all of them fakes that a
// test answers: the fixture for tests of the controller's recovery and checkpoints.
//
// Threads: the reactor's, outside fibers.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "tests/support/test_controller.h"

namespace gangway {

// A program on two devices; each run adds one to each of these states.
inline Program counting(const std::vector<std::string>& states = {"w"}) {
  ProgramBuilder b("counting", Mesh{{{"data", 2}}});
  for (const std::string& name : states) {
    const Value state = b.state(name, zeros(f32()));
    b.update(state, state + 1.0);
  }
  b.output("y", b.input("x", f32()) + 1.0);
  return b.build();
}

class KeptProgramTest : public testing::Test {
 protected:
  static constexpr int64_t kMs = 1'000'000;

  KeptProgramTest() {
    for (FakeExecutor& executor : executors_) {
      hosts_.push_back(
          controller_.add_host({.name = "host", .devices = 2, .memory_bytes = 1 << 20}, executor));
    }
    session_ = controller_.add_session("tester", "ada", client_);
    slice_ = reactor_->run([&] { return controller_.allocate(session_, {2}).id; });
    plan_ = compile(counting());
  }
  ~KeptProgramTest() override {
    controller_.session_closed(session_);
    reactor_->run_ready();
    end_copies();
  }

  PlanId compile(Program program) {
    return reactor_->run(
        [&] { return controller_.compile(session_, std::move(program), {slice_}, {8}).id; });
  }
  void keep(uint64_t every) {
    reactor_->run([&] { controller_.keep_checkpoints(session_, slice_, {.every = every}); });
  }
  RunId submit(int64_t time_limit_ms = 0) {
    const RunId run((session_.value << 40) + ++names_);
    RunFrame frame{.plan = plan_,
                   .run = run,
                   .after = std::exchange(last_, run),
                   .outputs = {ArrayId((session_.value << 40) + ++names_)},
                   .time_limit_ms = time_limit_ms};
    frame.arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}};
    controller_.on_message(session_, std::move(frame));
    return run;
  }
  size_t host() {
    const HostId at = controller_.slice(session_, slice_).devices.at(0).host;
    return static_cast<size_t>(std::ranges::find(hosts_, at) - hosts_.begin());
  }
  // The program's runs that were prepared on its host and have not been answered.
  std::vector<RunId> prepared() {
    std::vector<RunId> runs;
    for (const PrepareFrame& frame : executors_[host()].all<PrepareFrame>()) {
      if (!answered_.contains(frame.run.run)) runs.push_back(frame.run.run);
    }
    return runs;
  }
  // Ends the oldest run on the program's host.
  void finish(const std::optional<Error>& error = {}) {
    const RunId run = prepared().at(0);
    answered_.insert(run);
    controller_.on_message(hosts_[host()],
                           RunDoneFrame{.run = run, .error = error, .culprit = true});
    reactor_->run_ready();
  }
  void run_to_its_end() {
    submit();
    finish();
  }
  // Ends all copies that the hosts have not answered, and returns their number.
  size_t end_copies(const std::optional<Error>& error = {}) {
    size_t count = 0;
    for (size_t host = 0; host < std::size(executors_); ++host) {
      const std::vector<CopyFrame> all = executors_[host].all<CopyFrame>();
      for (; copied_[host] < all.size(); ++copied_[host], ++count)
        controller_.on_message(hosts_[host], CopyDoneFrame{all[copied_[host]].request, error});
    }
    reactor_->run_ready();
    return count;
  }
  void lose_host() {
    controller_.host_lost(hosts_[host()], Error(ErrorKind::kUnavailable, "its connection ended"));
    reactor_->run_ready();
  }
  void pass_ms(int64_t ms) {
    reactor_->run([&] {
      WaitQueue().wait_until_ns("for time to pass", reactor_->clock().now_ns() + ms * kMs);
    });
    controller_.tick(reactor_->clock().now_ns());
    reactor_->run_ready();
  }
  std::vector<std::string> told() const {
    std::vector<std::string> lines;
    for (const Message& message : client_.received) {
      if (const auto* warning = std::get_if<WarningFrame>(&message)) lines.push_back(warning->text);
    }
    return lines;
  }
  uint64_t version() { return controller_.slice(session_, slice_).version->value; }
  FakeCheckpoints& store() { return executors_[host()].store; }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executors_[3];
  FakeClient client_;
  Controller controller_{*reactor_, {.checkpoint_folder = "/nowhere"}};
  std::vector<HostId> hosts_;
  SessionId session_;
  SliceId slice_;
  PlanId plan_;
  RunId last_;
  std::set<RunId> answered_;
  size_t copied_[3] = {0, 0, 0};
  uint64_t names_ = 0;
};

}  // namespace gangway
