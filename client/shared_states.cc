#include "client/shared_states.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "client/client_impl.h"
#include "client/held_runs.h"

namespace gangway {
namespace internal {

class SharedStatesImpl {
 public:
  std::shared_ptr<ClientImpl> client;
  std::string program;
  uint64_t id = 0;
  std::map<std::string, Type> states;
};

// What becomes of a snapshot; guarded by the client's notify.mutex. It holds no handle, since the
// reactor does.
struct Arrival {
  bool done = false;
  uint64_t version = 0;
  std::optional<Error> error;
  std::vector<std::shared_ptr<SegmentHeap::Part>> bytes;  // Hosts may write there until it is done.
};

class SnapshotImpl {
 public:
  struct State {
    Type type;
    std::shared_ptr<SegmentHeap::Part> bytes;
  };
  ~SnapshotImpl() {
    if (number != 0) client->post([n = number](Session& session) { session.drop_reading(n); });
  }

  std::shared_ptr<ClientImpl> client;
  std::string program;
  uint64_t number = 0;  // Of the session's readings; 0: not asked for yet.
  std::map<std::string, State> states;
  std::shared_ptr<Arrival> arrival = std::make_shared<Arrival>();

  const State& at(const std::string& name) const {
    const auto found = states.find(name);
    GW_REQUIRE(found != states.end(), "snapshot of \"", program, "\": it has no state \"", name,
               "\"; it has ", states.size());
    return found->second;
  }

  bool done() const {
    const std::lock_guard lock(client->notify.mutex);
    return arrival->done;
  }

  void wait() const {
    client->notify.wait([this] { return arrival->done; });
    if (arrival->error) throw Error(*arrival->error);
  }
};

}  // namespace internal

using internal::SharedStatesImpl;
using internal::SnapshotImpl;

namespace {

Snapshot ask(const SharedStatesImpl& from, std::optional<uint64_t> version,
             const std::vector<std::string>& names) {
  internal::ClientImpl& client = *from.client;
  const auto snapshot = std::make_shared<SnapshotImpl>();
  snapshot->client = from.client;
  snapshot->program = from.program;
  const std::shared_ptr<internal::Arrival> arrival = snapshot->arrival;
  std::set<std::string> wanted(names.begin(), names.end());
  if (names.empty()) {
    for (const auto& [name, type] : from.states) wanted.insert(name);
  }
  internal::StatesRequest request{.states = from.id, .version = version};
  for (const std::string& name : wanted) {
    const auto found = from.states.find(name);
    GW_REQUIRE(found != from.states.end(), "states of \"", from.program, "\": there is no \"", name,
               "\"; there are ", from.states.size());
    const auto bytes = client.heap().take(found->second.bytes());
    snapshot->states[name] = {found->second, bytes};
    arrival->bytes.push_back(bytes);
    request.segment = bytes->segment();
    request.parts.push_back({name, bytes->offset(), bytes->bytes()});
  }
  GW_REQUIRE(!request.parts.empty(), "states of \"", from.program, "\": there are none");
  snapshot->number = client.new_reading();
  const auto done = [&notify = client.notify, arrival](const Result<uint64_t>& told) {
    notify.change([&] {
      if (told.ok()) {
        arrival->version = told.value();
      } else {
        arrival->error = told.error();
      }
      arrival->bytes.clear();
      arrival->done = true;
    });
  };
  client.post([number = snapshot->number, request = std::move(request),
               done](internal::Session& session) { session.read_states(number, request, done); });
  return Snapshot(snapshot);
}

std::vector<std::string> names_of(const Slice& slice) {
  std::vector<std::string> names;
  for (const auto& [name, type] : slice.states()) names.push_back(name);
  GW_REQUIRE(!names.empty(), "snapshot: no program that has states is compiled on the slice yet");
  return names;
}

}  // namespace

Snapshot::Snapshot(std::shared_ptr<const SnapshotImpl> impl) : impl_(std::move(impl)) {}
bool Snapshot::done() const { return impl_->done(); }
void Snapshot::wait() const { impl_->wait(); }

uint64_t Snapshot::version() const {
  wait();
  return impl_->arrival->version;
}

std::vector<std::pair<std::string, Type>> Snapshot::states() const {
  std::vector<std::pair<std::string, Type>> states;
  for (const auto& [name, state] : impl_->states) states.emplace_back(name, state.type);
  return states;
}

HostTensor Snapshot::read(const std::string& name) const {
  const SnapshotImpl::State& state = impl_->at(name);
  wait();
  HostTensor tensor(state.type);
  std::memcpy(tensor.bytes.data(), state.bytes->data(), tensor.bytes.size());
  return tensor;
}

SharedStates::SharedStates(std::shared_ptr<const SharedStatesImpl> impl) : impl_(std::move(impl)) {}

std::vector<std::pair<std::string, Type>> SharedStates::states() const {
  return {impl_->states.begin(), impl_->states.end()};
}

Snapshot SharedStates::at(uint64_t version, const std::vector<std::string>& names) const {
  return ask(*impl_, version, names);
}
Snapshot SharedStates::at(uint64_t version, const Slice& slice) const {
  return ask(*impl_, version, names_of(slice));
}
Snapshot SharedStates::latest(const std::vector<std::string>& names) const {
  return ask(*impl_, {}, names);
}
Snapshot SharedStates::latest(const Slice& slice) const { return ask(*impl_, {}, names_of(slice)); }

SharedStates Client::open_states(const std::string& program) const {
  auto states = std::make_shared<SharedStatesImpl>();
  states->client = impl_;
  states->program = program;
  const internal::OpenedStates opened = impl_->call(
      "open states", [&, client = impl_.get()] { return client->session().open_states(program); });
  states->id = opened.states;
  for (const internal::PlanPort& state : opened.list) states->states[state.name] = state.type;
  return SharedStates(std::move(states));
}

void Slice::allow_read(const std::string& owner) const {
  impl_->client->call("allow to read", [&, client = impl_->client.get()] {
    client->session().allow_read(impl_->id, owner);
  });
}

void Slice::keep_checkpoints(const RecoveryOptions& options) const {
  require_recovery(options);
  impl_->client->call("keep checkpoints", [&, client = impl_->client.get()] {
    client->session().keep_checkpoints(impl_->id, options);
  });
}

void Slice::load(const Snapshot& snapshot) const {
  const SnapshotImpl& from = snapshot.impl();
  internal::ClientImpl& client = *impl_->client;
  GW_REQUIRE(&client == from.client.get(), "load: the snapshot of \"", from.program,
             "\" is another client's");
  const auto own = states();
  for (const auto& [name, type] : own) {
    GW_REQUIRE(from.at(name).type == type, "state \"", name, "\": expected ", to_string(type),
               ", the snapshot of \"", from.program, "\" has ", to_string(from.at(name).type));
  }
  snapshot.wait();
  internal::wait_for_held(*impl_);
  // Who waits may be cancelled before all have ended. Guarded by the client's notify.mutex.
  struct Outcome {
    size_t under_way = 0;
    std::optional<Error> failed;
    std::vector<std::shared_ptr<internal::SegmentHeap::Part>> bytes;  // That hosts read.
  };
  const auto outcome = std::make_shared<Outcome>();
  outcome->under_way = own.size();
  for (const auto& [name, type] : own) outcome->bytes.push_back(from.at(name).bytes);
  for (const auto& [name, type] : own) {
    const internal::SegmentHeap::Part& bytes = *from.at(name).bytes;
    client.take_copy_place();
    client.post_copy({.kind = CopyKind::kPutState,
                      .at = {bytes.segment(), bytes.offset(), bytes.bytes()},
                      .scope = {impl_->id},
                      .name = name},
                     [outcome](const std::optional<Error>& error) {
                       --outcome->under_way;
                       if (error && !outcome->failed) outcome->failed = error;
                     });
  }
  client.notify.wait([&] { return outcome->under_way == 0; });
  if (outcome->failed) throw Error(*outcome->failed);
}

}  // namespace gangway
