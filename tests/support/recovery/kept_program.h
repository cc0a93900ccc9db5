// A program with checkpoints on some of three hosts of two devices each, all of them fakes that a
// test answers: the fixture for tests of the controller's recovery and checkpoints.
//
// Threads: the reactor's, outside fibers.
#pragma once

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <utility>
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

  // The program `first` lies on a slice of so many devices.
  explicit KeptProgramTest(uint32_t devices = 2, Program first = counting()) {
    for (int i = 0; i < 3; ++i) add_host();
    session_ = controller_.programs().add("tester", "ada", client_);
    slice_ = reactor_->run([&] { return controller_.allocate(session_, {devices}).id; });
    plan_ = compile(std::move(first));
  }
  ~KeptProgramTest() override {
    controller_.session_closed(session_);
    reactor_->run_ready();
    end_transfers();
  }

  void add_host() {
    FakeExecutor& executor = executors_.emplace_back();
    copied_.push_back(0);
    hosts_.push_back(
        controller_.add_host({.name = "host", .devices = 2, .memory_bytes = 1 << 20}, executor));
  }
  PlanId compile(Program program) {
    return reactor_->run(
        [&] { return controller_.compile(session_, std::move(program), {slice_}, {8}).id; });
  }
  void keep(uint64_t every) {
    reactor_->run([&] { controller_.keep_checkpoints(session_, slice_, {.every = every}); });
  }
  // Submits a run of plan_ that depends on the one before.
  RunId submit(int64_t time_limit_ms = 0) { return last_ = submit(plan_, last_, time_limit_ms); }
  RunId submit(PlanId plan, RunId after = {}, int64_t time_limit_ms = 0) {
    return submit(plan, {.input = 0, .bytes = std::vector<std::byte>(4)}, after, time_limit_ms);
  }
  // Submits a run whose input is this array.
  RunId submit_with(ArrayId array, PlanId plan, RunId after = {}) {
    return submit(plan, {.input = 0, .array = array}, after);
  }
  RunId submit(PlanId plan, ArgumentFrame argument, RunId after, int64_t time_limit_ms = 0) {
    const RunId run((session_.value << 40) + ++names_);
    RunFrame frame{.plan = plan,
                   .run = run,
                   .after = after,
                   .outputs = {ArrayId((session_.value << 40) + ++names_)},
                   .time_limit_ms = time_limit_ms};
    frame.arguments.push_back(std::move(argument));
    controller_.on_message(session_, std::move(frame));
    return run;
  }
  // Index of the host of the program's first device.
  size_t host() {
    const HostId at = controller_.tables().slices.at(slice_, session_).devices.at(0).host;
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
                           RunDoneFrame{.run = run, .error = error, .is_origin = true});
    reactor_->run_ready();
  }
  void run_to_its_end() {
    submit();
    finish();
  }
  // Ends all copies that the hosts have not answered, and returns their number.
  size_t end_transfers(const std::optional<Error>& error = {}) {
    size_t count = 0;
    for (size_t host = 0; host < executors_.size(); ++host) {
      const std::vector<HostTransferFrame> all = executors_[host].all<HostTransferFrame>();
      for (; copied_[host] < all.size(); ++copied_[host], ++count)
        controller_.on_message(hosts_[host],
                               HostTransferDoneFrame{all[copied_[host]].request, error});
    }
    reactor_->run_ready();
    return count;
  }
  void lose(HostId host) {
    controller_.host_lost(host, Error(ErrorKind::kUnavailable, "its connection ended"));
    reactor_->run_ready();
  }
  void lose_host() { lose(hosts_[host()]); }
  void pass_ms(int64_t ms) {
    reactor_->run([&] {
      WaitQueue().wait_until_ns("for time to pass", reactor_->clock().now_ns() + ms * kMs);
    });
    controller_.tick(reactor_->clock().now_ns());
    reactor_->run_ready();
  }
  std::vector<std::string> reported() const { return client_.warnings(); }
  uint64_t version() { return controller_.tables().slices.at(slice_, session_).version->value; }
  FakeCheckpoints& store() { return executors_[host()].store; }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  std::deque<FakeExecutor> executors_;  // One for each of hosts_; they stay where they are.
  FakeClient client_;
  Controller controller_{*reactor_, {.checkpoint_folder = "/nowhere"}};
  std::vector<HostId> hosts_;
  SessionId session_;
  SliceId slice_;
  PlanId plan_;
  RunId last_;
  std::set<RunId> answered_;
  std::vector<size_t> copied_;  // Number of copies that each host has answered.
  uint64_t names_ = 0;
};

}  // namespace gangway
