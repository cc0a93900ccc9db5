// A controller with two hosts of two devices each and one client, all of them fakes that queue what
// they are told: the fixture of the tests of controller/, which compile test_controller.cc.
//
// Threads: the reactor's, outside fibers.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/service/controller.h"
#include "tests/support/messages.h"

namespace gangway {

// Memory and files of checkpoints, which are as the test says.
class FakeCheckpoints final : public CheckpointPeer {
 public:
  FakeCheckpoints();
  ~FakeCheckpoints() override;
  Future<Segment> make_segment(uint64_t bytes) override;
  Future<void> write_checkpoint(uint64_t segment, const CheckpointFiles& files) override;
  Future<std::vector<std::string>> read_checkpoint(uint64_t segment,
                                                   const CheckpointFiles& files) override;
  void close_segment(uint64_t segment) override;

  std::optional<Error> refuses;            // Set: no segment is made.
  std::optional<Promise<Segment>> making;  // Set: what make_segment waits for.
  std::optional<Promise<void>> writing;    // Set: what write_checkpoint waits for.
  std::set<uint64_t> segments;
  std::vector<CheckpointFiles> written, read;

 private:
  uint64_t last_ = 0;
};

// An executor that queues what it is told; the test answers, delays or fails.
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
  // What it reads, given what is fixed.
  std::function<SourceText(const std::vector<SourceText>&)> read_text;
  std::vector<SourceText> texts_asked;  // At the last of so many installs.
  int installs = 0;
  std::optional<Promise<Installed>> installing;  // Set: what install waits for.
  std::optional<Promise<void>> commit;           // Set: what commit_install waits for.
  std::optional<Promise<int64_t>> moving;        // Set: what move_states waits for.
  std::optional<Promise<HostTimeline>> telling;  // Set: what timeline waits for.
  uint32_t events_asked = 0;
  PlanOwner installed_of;  // Of the last one.
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

  std::vector<Message> received;
  std::vector<RunDoneFrame> ended;
};

// A program on one slice of this mesh: y = x + x, of one float.
Program doubled(const Mesh& mesh);

class ControllerTest : public testing::Test {
 protected:
  ControllerTest();
  ~ControllerTest() override;

  PlanId compile(SessionId session, uint32_t runs_in_flight_max = 2, uint32_t devices = 4);
  // In a fiber, up to where it waits for a host. What it ends with goes to compile_failed_.
  Fiber compiling(SessionId session);
  RunId submit(SessionId session, PlanId plan, int64_t time_limit_ms = 0);
  void finish(size_t host, RunId run, std::optional<Error> error = {});
  void finish_everywhere(uint64_t run);
  void lose(size_t host, const std::string& why = "its connection ended");
  // Of the runs that the host was sent: the first ticket of each.
  std::vector<uint64_t> tickets(int host) const;

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor executor_[2];
  FakeClient client_;
  Controller controller_{*reactor_};
  std::vector<HostId> hosts_;
  SessionId session_;
  SliceId slice_;  // That compile() allocated last.
  ArrayId last_output_;
  std::optional<Error> compile_failed_;
  uint64_t names_ = 0;
};

}  // namespace gangway
