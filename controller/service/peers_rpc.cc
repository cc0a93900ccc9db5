#include "controller/service/peers_rpc.h"

#include "protocol/checkpoint_wire.h"
#include "protocol/segment_wire.h"
#include "protocol/timeline_wire.h"

namespace gangway {
namespace {

// Runs `body` in a fiber. The future gets its result or error.
template <class T, class Body>
Future<T> as_future(Reactor& reactor, std::string name, Body body) {
  Promise<T> promise;
  Future<T> future = promise.future();
  reactor
      .spawn(std::move(name),
             [promise = std::move(promise), body = std::move(body)]() mutable {
               promise.finish(result_of(body));
             })
      .detach();
  return future;
}

}  // namespace

PeerStream::PeerStream(Reactor& reactor, FrameOptions options)
    : frames_(std::make_unique<FrameStream>(reactor, std::move(options))) {}

void PeerStream::start() {
  frames_->start([this](capnp::MessageReader& reader) { on_message(decode(reader)); });
  frames_->closed().on_ready([weak = weak_from_this()](const Result<void>& result) {
    const auto self = weak.lock();
    if (self == nullptr || std::exchange(self->closed_, true)) return;
    // In a fiber: this may run inside a send(), amid a change of the data that on_closed changes.
    Reactor::current()
        .spawn("a peer is gone",
               [weak, why = result.ok() ? Error(ErrorKind::kUnavailable, "its frame stream ended")
                                        : result.error()] {
                 const auto stream = weak.lock();
                 if (stream == nullptr) return;
                 const auto tell = stream->on_closed;  // A copy: the call may clear on_closed.
                 if (tell) tell(why);
               })
        .detach();
  });
}

void PeerStream::send(const Frame& frame) {
  if (!closed_) frames_->send(frame);
}

void PeerStream::hang_up() {
  if (!closed_) frames_->close();
}

void PeerStream::close() {
  closed_ = true;
  frames_.reset();
}

Future<Installed> ExecutorRpc::install(PlanId plan, const std::vector<std::byte>& bytes,
                                       uint32_t self, StateScope scope, const PlanOwner& owner,
                                       const std::vector<SourceText>& texts) {
  auto request = executor_.installRequest();
  request.setPlan(plan.value);
  request.setBytes(kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
  request.setSelf(self);
  request.setScope(scope.id);
  request.setOfOther(!owner.is_operator);
  request.setOwner(owner.name);
  write(request.initTexts(static_cast<uint32_t>(texts.size())), texts);
  auto promise = request.send();
  return as_future<Installed>(reactor_, "install", [promise = kj::mv(promise)]() mutable {
    const auto reply = await<capnp::Response<wire::Executor::InstallResults>>(kj::mv(promise));
    Installed installed{read(reply.getNeeds()), read(reply.getOffers()), read(reply.getTexts())};
    for (const uint32_t host : reply.getWritesTo()) installed.writes_to.push_back(host);
    return installed;
  });
}

Future<void> ExecutorRpc::link(PlanId plan, const std::vector<LinkOffer>& offers) {
  auto request = executor_.linkRequest();
  request.setPlan(plan.value);
  write(request.initOffers(static_cast<uint32_t>(offers.size())), offers);
  return as_future<void>(reactor_, "link", [promise = request.send()]() mutable {
    await<capnp::Response<wire::Executor::LinkResults>>(kj::mv(promise));
  });
}

Future<void> ExecutorRpc::commit_install(PlanId plan) {
  auto request = executor_.commitInstallRequest();
  request.setPlan(plan.value);
  return as_future<void>(reactor_, "commit install", [promise = request.send()]() mutable {
    await<capnp::Response<wire::Executor::CommitInstallResults>>(kj::mv(promise));
  });
}

Future<int64_t> ExecutorRpc::move_states(const MoveRequest& what) {
  auto request = executor_.moveStatesRequest();
  auto plans = request.initPlans(static_cast<uint32_t>(what.plans.size()));
  for (uint32_t i = 0; i < plans.size(); ++i) plans.set(i, what.plans[i].value);
  auto scopes = request.initScopes(static_cast<uint32_t>(what.scopes.size()));
  for (uint32_t i = 0; i < scopes.size(); ++i) scopes.set(i, what.scopes[i].id);
  request.setToHost(what.to_host);
  return as_future<int64_t>(reactor_, "move states", [promise = request.send()]() mutable {
    return await<capnp::Response<wire::Executor::MoveStatesResults>>(kj::mv(promise)).getBytes();
  });
}

Future<CheckpointPeer::Segment> ExecutorRpc::make_segment(uint64_t bytes) {
  auto request = executor_.makeSegmentRequest();
  request.setBytes(bytes);
  return as_future<Segment>(reactor_, "make a segment", [promise = request.send()]() mutable {
    const auto reply = await<capnp::Response<wire::Executor::MakeSegmentResults>>(kj::mv(promise));
    return Segment{reply.getNumber(), read_segment(reply.getSegment())};
  });
}

Future<void> ExecutorRpc::write_checkpoint(uint64_t segment, const CheckpointFiles& files) {
  auto request = executor_.writeCheckpointRequest();
  request.setNumber(segment);
  write(request.initFiles(), files);
  return as_future<void>(reactor_, "write a checkpoint", [promise = request.send()]() mutable {
    await<capnp::Response<wire::Executor::WriteCheckpointResults>>(kj::mv(promise));
  });
}

Future<std::vector<std::string>> ExecutorRpc::read_checkpoint(uint64_t segment,
                                                              const CheckpointFiles& files) {
  using Missing = std::vector<std::string>;
  auto request = executor_.readCheckpointRequest();
  request.setNumber(segment);
  write(request.initFiles(), files);
  return as_future<Missing>(reactor_, "read a checkpoint", [promise = request.send()]() mutable {
    const auto reply =
        await<capnp::Response<wire::Executor::ReadCheckpointResults>>(kj::mv(promise));
    Missing missing;
    for (const auto tensor : reply.getMissing()) missing.emplace_back(tensor.cStr());
    return missing;
  });
}

Future<HostTimeline> ExecutorRpc::timeline(uint32_t events_max) {
  auto request = executor_.timelineRequest();
  request.setEventsMax(events_max);
  return as_future<HostTimeline>(reactor_, "timeline", [promise = request.send()]() mutable {
    return read(
        await<capnp::Response<wire::Executor::TimelineResults>>(kj::mv(promise)).getTimeline());
  });
}

void ExecutorRpc::close_segment(uint64_t segment) {
  auto request = executor_.closeSegmentRequest();
  request.setNumber(segment);
  // The segment of an executor that is gone has gone with it, so an error means nothing.
  request.send().ignoreResult().detach([](const kj::Exception&) {});
}

}  // namespace gangway
