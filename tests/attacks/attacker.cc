#include "tests/attacks/attacker.h"

#include "gangway.h"
#include "ir/wire/wire.h"
#include "runtime/fibers/await.h"

namespace gangway {
namespace {

using Connected = capnp::Response<wire::Controller::ConnectResults>;

Connected join(Connection& connection) {
  auto request = connection.bootstrap<wire::Controller>().connectRequest();
  write(request.initVersion(), Version{});
  write(request.initMachine(), this_machine());
  request.setName("attacker");
  request.setNumberName(true);
  return await<Connected>(request.send());
}

std::string text_of(const std::optional<Error>& error) {
  return error ? cat(to_string(error->kind()), ": ", error->what()) : "done: it ended well";
}

}  // namespace

std::string outcome_of(const std::function<std::string()>& call) {
  try {
    return cat("done: ", call());
  } catch (const Error& error) {
    return text_of(error);
  }
}

Program small_program(const std::string& name) {
  const Mesh mesh{{{"data", 1}}};
  ProgramBuilder b(name, mesh);
  const Value w = b.state("w", zeros(f32({4})));
  const Value next = w + b.input("x", f32({4}));
  b.update(w, next);
  b.output("y", next);
  return b.build();
}

Attacker::Attacker(Reactor& reactor, SimCluster& cluster)
    : connection_(Connection::connect(reactor, cluster.network.endpoint(kOwner), "sim:controller")),
      joined_(join(connection_)) {
  frames_ = connect_frames(reactor, cluster.network.endpoint(kOwner), "sim:controller",
                           joined_.getFrameKey());
  frames_->start([this](capnp::MessageReader& reader) {
    const Message message = decode(reader);
    if (const auto* run = std::get_if<RunDoneFrame>(&message)) {
      fence_came_ = fence_came_ || run->run == RunId(own_.run);
      if (run->run != RunId(own_.run)) told_.push_back(text_of(run->error));
    } else if (const auto* copy = std::get_if<HostTransferDoneFrame>(&message)) {
      told_.push_back(text_of(copy->error));
    }
    changed_.wake_all();
  });
  make_own_things();
}

void Attacker::make_own_things() {
  own_ = {.owner = kOwner, .program = joined_.getName().cStr(), .session = joined_.getId()};
  auto slice = session().allocateRequest();
  slice.setDevices(1);
  slice.setCall(new_call());
  own_.slice = await<capnp::Response<wire::Session::AllocateResults>>(slice.send()).getId();
  auto compile = session().compileRequest();
  const std::vector<std::byte> program = to_wire(small_program("eves"));
  compile.setProgram(
      kj::arrayPtr(reinterpret_cast<const kj::byte*>(program.data()), program.size()));
  compile.initSlices(1).set(0, own_.slice);
  compile.setRunsInFlightMax(2);
  compile.setCall(own_.call = new_call());
  own_.plan = await<capnp::Response<wire::Session::Compiled>>(compile.send()).getPlan();
}

std::string Attacker::told_of(const Message& message) {
  told_.clear();
  fence_came_ = false;
  own_.run = new_name();
  frames_->send(encode(message));
  // A run of no plan is a fence: its end comes after all reports that the message causes.
  frames_->send(encode(RunFrame{.plan = PlanId(0), .run = RunId(own_.run)}));
  while (!fence_came_) changed_.wait("for what is told of a frame");
  std::string all;
  for (const std::string& one : told_) all += cat(one, "\n");
  return all;
}

bool Attacker::is_closed_for(const Message& message) {
  frames_->send(encode(message));
  connection_.disconnected().await();
  return true;
}

}  // namespace gangway
