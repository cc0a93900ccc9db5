#include "tests/support/test_controller.h"

#include <utility>

#include "ir/build/ops.h"
#include "ir/build/program_builder.h"

namespace gangway {

FakeCheckpoints::FakeCheckpoints() = default;
FakeCheckpoints::~FakeCheckpoints() = default;

Future<CheckpointPeer::Segment> FakeCheckpoints::make_segment(uint64_t bytes) {
  if (refuses) return Future<Segment>(Result<Segment>(*refuses));
  segments.insert(++last_);
  if (making) return making->future();
  return Future<Segment>(Result<Segment>(Segment{last_, {.bytes = bytes}}));
}

Future<void> FakeCheckpoints::write_checkpoint(uint64_t segment, const CheckpointFiles& files) {
  EXPECT_TRUE(segments.contains(segment));
  written.push_back(files);
  return writing ? writing->future() : ready_future();
}

Future<std::vector<std::string>> FakeCheckpoints::read_checkpoint(uint64_t segment,
                                                                  const CheckpointFiles& files) {
  EXPECT_TRUE(segments.contains(segment));
  read.push_back(files);
  return Future<std::vector<std::string>>(
      Result<std::vector<std::string>>(std::vector<std::string>{}));
}

void FakeCheckpoints::close_segment(uint64_t segment) { segments.erase(segment); }

FakeExecutor::FakeExecutor() = default;
FakeExecutor::~FakeExecutor() = default;

Future<Installed> FakeExecutor::install(PlanId, const std::vector<std::byte>&, uint32_t host,
                                        StateScope, const PlanOwner& owner,
                                        const std::vector<SourceText>& texts) {
  self = host;
  installed_of = owner;
  ++installs;
  texts_asked = texts;
  if (installing) return installing->future();
  if (const auto why = refuses ? refuses() : std::nullopt)
    return Future<Installed>(Result<Installed>(*why));
  Installed reply;
  for (uint32_t d = 0; d < devices; ++d) reply.needs.push_back({d, need_bytes, state_bytes, 0});
  if (read_text) reply.texts = {read_text(texts)};
  reply.offers = {{offers_of.value_or(self), {}}};
  if (writes_to) reply.writes_to = writes_to(self);
  return Future<Installed>(Result<Installed>(std::move(reply)));
}

Future<void> FakeExecutor::link(PlanId, const std::vector<LinkOffer>& offers) {
  linked_to.clear();
  for (const LinkOffer& offer : offers) linked_to.push_back(offer.host);
  return ready_future();
}

Future<void> FakeExecutor::commit_install(PlanId) {
  return commit ? commit->future() : ready_future();
}

Future<int64_t> FakeExecutor::move_states(const MoveRequest& what) {
  moves.push_back(what);
  return moving ? moving->future() : Future<int64_t>(Result<int64_t>(state_bytes));
}

Future<HostTimeline> FakeExecutor::timeline(uint32_t events_max) {
  events_asked = events_max;
  return telling ? telling->future() : ExecutorPeer::timeline(events_max);
}

void FakeExecutor::send(const Frame& frame) { received.push_back(decode(frame)); }

FakeClient::FakeClient() = default;
FakeClient::~FakeClient() = default;

void FakeClient::send(const Frame& frame) {
  if (auto* done = std::get_if<RunDoneFrame>(&received.emplace_back(decode(frame)))) {
    ended.push_back(*done);
  }
}

Program doubled(const Mesh& mesh) {
  ProgramBuilder b("doubled", mesh);
  Value x = b.input("x", f32());
  b.output("y", x + x);
  return b.build();
}

ControllerTest::ControllerTest() {
  for (int i = 0; i < 2; ++i) {
    hosts_.push_back(controller_.add_host(
        {.name = "host-" + std::to_string(i), .devices = 2, .memory_bytes = 1000}, executor_[i]));
  }
  session_ = controller_.programs().add("tester", "ada", client_);
}

ControllerTest::~ControllerTest() = default;

PlanId ControllerTest::compile(SessionId session, uint32_t runs_in_flight_max, uint32_t devices) {
  return reactor_->run([&] {
    slice_ = controller_.allocate(session, {devices}).id;
    const Program program = doubled(Mesh{{{"data", devices}}});
    return controller_.compile(session, program, {slice_}, {runs_in_flight_max}).id;
  });
}

Fiber ControllerTest::compiling(SessionId session) {
  Fiber fiber = reactor_->spawn("compile", [this, session] {
    try {
      slice_ = controller_.allocate(session, {4}).id;
      controller_.compile(session, doubled(Mesh{{{"data", 4}}}), {slice_}, {2});
    } catch (const Error& error) {
      compile_failed_ = error;
    }
  });
  reactor_->run_ready();
  return fiber;
}

RunId ControllerTest::submit(SessionId session, PlanId plan, int64_t time_limit_ms) {
  const RunId run((session.value << 40) + ++names_);
  RunFrame frame{.plan = plan, .run = run, .time_limit_ms = time_limit_ms};
  frame.arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}};
  frame.outputs = {ArrayId((session.value << 40) + ++names_)};
  last_output_ = frame.outputs[0];
  controller_.on_message(session, frame);
  return run;
}

void ControllerTest::finish(size_t host, RunId run, std::optional<Error> error) {
  controller_.on_message(hosts_[host], RunDoneFrame{.run = run, .error = error, .is_origin = true});
}

void ControllerTest::finish_everywhere(uint64_t run) {
  for (size_t host = 0; host < hosts_.size(); ++host) finish(host, RunId(run));
}

void ControllerTest::lose(size_t host, const std::string& why) {
  controller_.host_lost(hosts_[host], Error(ErrorKind::kUnavailable, why));
}

std::vector<uint64_t> ControllerTest::tickets(int host) const {
  std::vector<uint64_t> first;
  for (const GrantFrame& grant : executor_[host].all<GrantFrame>()) {
    for (const GrantRange& range : grant.ranges) first.push_back(range.ticket.value);
  }
  return first;
}

}  // namespace gangway
