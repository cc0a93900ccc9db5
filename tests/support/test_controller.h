// A controller with two hosts of two devices each and one client, all of them fakes that queue the
// messages that they get: the fixture for the tests of controller/, which compile
// test_controller.cc.
//
// Threads: the reactor's, outside fibers.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/controller.h"
#include "tests/support/messages.h"

namespace gangway {

// Fake memory and files of checkpoints, which fail or wait as the test sets them.
class FakeCheckpoints final : public CheckpointPeer {
 public:
  FakeCheckpoints();
  ~FakeCheckpoints() override;
  Future<Segment> make_segment(uint64_t bytes) override;
  Future<void> write_checkpoint(uint64_t segment, const CheckpointFiles& files) override;
  Future<std::vector<std::string>> read_checkpoint(uint64_t segment,
                                                   const CheckpointFiles& files) override;
  void close_segment(uint64_t segment) override;

  std::optional<Error> refuses;            // If set, make_segment fails with it.
  std::optional<Promise<Segment>> making;  // If set, make_segment waits for it.
  std::optional<Promise<void>> writing;    // If set, write_checkpoint waits for it.
  std::set<uint64_t> segments;
  std::vector<CheckpointFiles> written, read;

 private:
  uint64_t last_ = 0;
};

// An executor that queues its requests; the test answers, delays or fails them.
class FakeExecutor final : public ExecutorPeer {
 public:
  FakeExecutor();
  ~FakeExecutor() override;
  Future<Installed> install(PlanId, const std::vector<std::byte>&, uint32_t, StateScope,
                            const PlanOwner&, const std::vector<SourceText>& texts) override;
  Future<void> link(PlanId, const std::vector<LinkOffer>&) override;
  Future<void> commit_install(PlanId) override;
  Future<int64_t> move_states(const MoveRequest&) override;
  Future<HostTimeline> timeline(uint32_t events_max) override;
  void send(const Frame& frame) override;
  void hang_up() override { hung_up = true; }
  CheckpointPeer* checkpoints() override { return &store; }

  template <class T>
  std::vector<T> all() const {
    return all_of<T>(received);
  }

  uint32_t devices = 2;
  int64_t need_bytes = 0;
  int64_t state_bytes = 0;
  std::function<std::optional<Error>()> refuses;  // If set: the reason for which it can't install.
  // Gives the text that it reads, given the texts that are fixed.
  std::function<SourceText(const std::vector<SourceText>&)> read_text;
  std::vector<SourceText> texts_asked;  // Texts of the last of `installs`.
  int installs = 0;
  uint32_t self = 0;  // Its index in the plan that it was asked last to install.
  // If set: the hosts of a plan that this one writes to, given its own index.
  std::function<std::vector<uint32_t>(uint32_t self)> writes_to;
  std::optional<uint32_t> offers_of;             // If set: its offers are said to be this host's.
  std::vector<uint32_t> linked_to;               // The hosts whose offers the last link() brought.
  std::optional<Promise<Installed>> installing;  // If set, install waits for it.
  std::optional<Promise<void>> commit;           // If set, commit_install waits for it.
  std::optional<Promise<int64_t>> moving;        // If set, move_states waits for it.
  std::optional<Promise<HostTimeline>> telling;  // If set, timeline waits for it.
  uint32_t events_asked = 0;
  PlanOwner installed_of;  // Owner of the last installed plan.
  std::vector<MoveRequest> moves;
  FakeCheckpoints store;
  std::vector<Message> received;
  bool hung_up = false;
};

class FakeClient final : public ClientPeer {
 public:
  FakeClient();
  ~FakeClient() override;
  void send(const Frame& frame) override;

  // Texts of the warnings that it got, the oldest first.
  std::vector<std::string> warnings() const {
    std::vector<std::string> texts;
    for (const WarningFrame& warning : all_of<WarningFrame>(received))
      texts.push_back(warning.text);
    return texts;
  }

  std::vector<Message> received;
  std::vector<RunDoneFrame> ended;
};

// A program on one slice of this mesh: y = x + x, with x one float.
Program doubled(const Mesh& mesh);

class ControllerTest : public testing::Test {
 protected:
  ControllerTest();
  ~ControllerTest() override;

  PlanId compile(SessionId session, uint32_t runs_in_flight_max = 2, uint32_t devices = 4);
  // Compiles in a fiber, and returns when the fiber waits for a host. compile_failed_ gets the
  // error that it ends with.
  Fiber compiling(SessionId session);
  RunId submit(SessionId session, PlanId plan, int64_t time_limit_ms = 0);
  void finish(size_t host, RunId run, std::optional<Error> error = {});
  void finish_everywhere(uint64_t run);
  void lose(size_t host, const std::string& why = "its connection ended");
  // The first ticket of each run that the host was sent.
  std::vector<uint64_t> tickets(int host) const;

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executor_[2];
  FakeClient client_;
  Controller controller_{*reactor_};
  std::vector<HostId> hosts_;
  SessionId session_;
  SliceId slice_;  // The slice that compile() allocated last.
  ArrayId last_output_;
  std::optional<Error> compile_failed_;
  uint64_t names_ = 0;
};

}  // namespace gangway
