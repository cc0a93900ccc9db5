// A controller with two hosts of two devices each and one client, all of them fakes that queue what
// they are told: what the tests of controller/ stand on.
//
// Threads: the reactor's, outside fibers.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/service/controller.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"

namespace gangway {

// An executor that queues what it is told; the test answers, delays or fails.
class FakeExecutor final : public ExecutorPeer {
 public:
  Future<InstallReply> install(PlanId, const std::vector<std::byte>&, uint32_t, uint64_t) override {
    if (installing) return installing->future();
    InstallReply reply;
    for (uint32_t d = 0; d < devices; ++d) reply.needs.push_back({d, need_bytes, state_bytes, 0});
    return Future<InstallReply>(Result<InstallReply>(std::move(reply)));
  }
  Future<void> link(PlanId, const std::vector<OfferedSegment>&) override { return ready_future(); }
  Future<void> commit_install(PlanId) override {
    return commit ? commit->future() : ready_future();
  }
  void send(const Frame& frame) override { received.push_back(decode(frame)); }
  void hang_up() override { hung_up = true; }

  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const Message& message : received) {
      if (const T* item = std::get_if<T>(&message)) found.push_back(*item);
    }
    return found;
  }

  uint32_t devices = 2;
  int64_t need_bytes = 0;
  int64_t state_bytes = 0;
  std::optional<Promise<InstallReply>> installing;  // Set: what install waits for.
  std::optional<Promise<void>> commit;              // Set: what commit_install waits for.
  std::vector<Message> received;
  bool hung_up = false;
};

class FakeClient final : public ClientPeer {
 public:
  void send(const Frame& frame) override {
    if (auto* done = std::get_if<RunDoneFrame>(&received.emplace_back(decode(frame)))) {
      ended.push_back(*done);
    }
  }
  std::vector<Message> received;
  std::vector<RunDoneFrame> ended;
};

inline Program doubled(const Mesh& mesh) {
  ProgramBuilder b("doubled", mesh);
  Value x = b.input("x", f32());
  b.output("y", x + x);
  return b.build();
}

class ControllerTest : public testing::Test {
 protected:
  ControllerTest() {
    for (int i = 0; i < 2; ++i) {
      hosts_.push_back(controller_.add_host(
          {.name = "host-" + std::to_string(i), .devices = 2, .memory_bytes = 1000}, executor_[i]));
    }
    session_ = controller_.add_session("tester", client_);
  }

  PlanId compile(SessionId session, uint32_t runs_in_flight_max = 2) {
    return reactor_->run([&] {
      slice_ = controller_.allocate(session, 4).id;
      return controller_
          .compile(session, doubled(Mesh{{{"data", 4}}}), {slice_}, runs_in_flight_max)
          .id;
    });
  }

  // In a fiber, up to where it waits for a host. What it ends with goes to compile_failed_.
  Fiber compiling(SessionId session) {
    Fiber fiber = reactor_->spawn("compile", [this, session] {
      try {
        slice_ = controller_.allocate(session, 4).id;
        controller_.compile(session, doubled(Mesh{{{"data", 4}}}), {slice_}, 2);
      } catch (const Error& error) {
        compile_failed_ = error;
      }
    });
    reactor_->run_ready();
    return fiber;
  }

  RunId submit(SessionId session, PlanId plan, int64_t time_limit_ms = 0) {
    const RunId run((session.value << 40) + ++names_);
    RunFrame frame{.plan = plan, .run = run, .time_limit_ms = time_limit_ms};
    frame.arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}};
    frame.outputs = {ArrayId((session.value << 40) + ++names_)};
    last_output_ = frame.outputs[0];
    controller_.on_message(session, frame);
    return run;
  }

  void finish(size_t host, RunId run, std::optional<Error> error = {}) {
    controller_.on_message(hosts_[host], RunDoneFrame{.run = run, .error = error, .culprit = true});
  }

  void finish_everywhere(uint64_t run) {
    for (size_t host = 0; host < hosts_.size(); ++host) finish(host, RunId(run));
  }

  void lose(size_t host, std::string why = "its connection ended") {
    controller_.host_lost(hosts_[host], Error(ErrorKind::kUnavailable, std::move(why)));
  }

  std::vector<uint64_t> tickets(int host) {
    std::vector<uint64_t> first;
    for (const RunFrame& run : executor_[host].all<RunFrame>()) {
      first.push_back(run.first_ticket.value);
    }
    return first;
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executor_[2];
  FakeClient client_;
  Controller controller_{*reactor_};
  std::vector<HostId> hosts_;
  SessionId session_;
  SliceId slice_;  // That compile() made last.
  ArrayId last_output_;
  std::optional<Error> compile_failed_;
  uint64_t names_ = 0;
};

}  // namespace gangway
