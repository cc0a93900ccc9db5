#include "client/shared_states.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "client/call_errors.h"
#include "client/failed_runs.h"
#include "client/objects.h"
#include "runtime/base/align.h"

namespace gangway {
namespace internal {

class SharedStatesImpl {
 public:
  std::shared_ptr<Session> session;
  std::string program;
  uint64_t id = 0;
  std::map<std::string, Type> states;
};

// The fate of a snapshot. Guarded by the session's notify.mutex. It holds no handle, since the
// reactor holds it.
struct Arrival {
  bool done = false;
  uint64_t version = 0;
  std::optional<Error> error;
  Bulk::PartPtr bytes;  // All its states; lent until hosts report that they are done.
};

class SnapshotImpl {
 public:
  struct State {
    Type type;
    int64_t offset = 0;  // Offset in the arrival's bytes.
  };
  ~SnapshotImpl() {
    if (number != 0) session->drop_reading(number);
  }

  std::shared_ptr<Session> session;
  std::string program;
  uint64_t number = 0;  // Number of the session's reading; 0: not asked for yet.
  std::map<std::string, State> states;
  std::shared_ptr<Arrival> arrival = std::make_shared<Arrival>();

  const State& at(const std::string& name) const {
    const auto found = states.find(name);
    GW_REQUIRE(found != states.end(), "snapshot of \"", program, "\": it has no state \"", name,
               "\"; it has: ", names_in(states));
    return found->second;
  }

  bool done() const {
    const std::lock_guard lock(session->notify.mutex);
    return arrival->done;
  }

  void wait() const {
    session->notify.wait([this] { return arrival->done; });
    if (arrival->error) throw Error(*arrival->error);
  }
};

}  // namespace internal

using internal::SharedStatesImpl;
using internal::SnapshotImpl;

namespace {

Error past_error(const std::string& program, uint64_t wanted, uint64_t now) {
  return {ErrorKind::kInvalid,
          cat("states of \"", program, "\": version ", wanted, " is past, and nobody kept it: the ",
              "runs that have begun lead to version ", now),
          {},
          "ask for a later one, before it comes, or for the latest"};
}

// Gives the request memory that hosts may write from now on. Its former memory is released first,
// so that nobody needs room for both.
void lend_memory(internal::SegmentHeap& heap, const std::vector<int64_t>& offsets, int64_t bytes,
                 internal::Arrival& arrival, internal::StatesRequest& request) {
  arrival.bytes.reset();
  const internal::Bulk::PartPtr part = heap.take(bytes);
  part->lend();
  request.segment = part->segment();
  for (size_t i = 0; i < offsets.size(); ++i) request.parts[i].offset = part->offset() + offsets[i];
  arrival.bytes = part;
}

// Returns memory that nobody needs any more.
internal::Bulk::PartPtr arrived(internal::Arrival& arrival, const std::string& program,
                                const internal::StatesRequest& asked,
                                const internal::StatesAnswer& reported) {
  // There is no memory where none could be lent to a version that comes again.
  if (reported.is_settled && arrival.bytes != nullptr) arrival.bytes->returned();
  arrival.version = reported.version;
  arrival.error = reported.error;
  if (reported.is_past)
    arrival.error = past_error(program, asked.version.value_or(0), reported.version);
  arrival.done = true;
  return arrival.error ? std::exchange(arrival.bytes, nullptr) : nullptr;
}

Snapshot ask(const SharedStatesImpl& from, std::optional<uint64_t> version,
             const std::vector<std::string>& names) {
  internal::Session& session = *from.session;
  const auto snapshot = std::make_shared<SnapshotImpl>();
  snapshot->session = from.session;
  snapshot->program = from.program;
  const std::shared_ptr<internal::Arrival> arrival = snapshot->arrival;
  std::set<std::string> wanted(names.begin(), names.end());
  if (names.empty()) {
    for (const auto& [name, type] : from.states) wanted.insert(name);
  }
  constexpr int64_t kAlignment = 64;
  internal::StatesRequest request{.states = from.id, .version = version};
  std::vector<int64_t> offsets;
  int64_t end = 0;
  for (const std::string& name : wanted) {
    const auto found = from.states.find(name);
    GW_REQUIRE(found != from.states.end(), "states of \"", from.program, "\": there is no \"", name,
               "\"; there are: ", internal::names_in(from.states));
    const int64_t bytes = found->second.bytes();
    snapshot->states[name] = {found->second, offsets.emplace_back(align_up(end, kAlignment))};
    request.parts.push_back({name, 0, bytes});
    end = offsets.back() + bytes;
  }
  GW_REQUIRE(!request.parts.empty(), "states of \"", from.program, "\": there are none");
  lend_memory(session.bulk.heap(), offsets, end, *arrival, request);
  snapshot->number = session.new_reading();
  const auto renew = [&session, offsets, end, arrival](internal::StatesRequest& again) {
    lend_memory(session.bulk.heap(), offsets, end, *arrival, again);
  };
  const auto done = [&session, program = from.program, request,
                     arrival](const internal::StatesAnswer& reported) {
    internal::Bulk::PartPtr unused;
    session.notify.change([&] { unused = arrived(*arrival, program, request, reported); });
    session.bulk.free_on_thread(std::move(unused));
  };
  session.read_states(snapshot->number, request, renew, done);
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
  std::memcpy(tensor.bytes.data(), impl_->arrival->bytes->data() + state.offset,
              tensor.bytes.size());
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
  states->session = session_;
  states->program = program;
  const internal::OpenedStates opened = session_->open_states(program);
  states->id = opened.states;
  for (const internal::PlanPort& state : opened.list) states->states[state.name] = state.type;
  return SharedStates(std::move(states));
}

void Slice::allow_read(const std::string& owner) const {
  impl_->session->allow_read(impl_->id, owner);
}

void Slice::keep_checkpoints(const RecoveryOptions& options) const {
  require_recovery(options);
  impl_->session->keep_checkpoints(impl_->id, options);
}

void Slice::load(const Snapshot& snapshot) const {
  const SnapshotImpl& from = snapshot.impl();
  internal::Session& session = *impl_->session;
  GW_REQUIRE(&session == from.session.get(), "load: the snapshot of \"", from.program,
             "\" is another client's");
  const auto own = states();
  for (const auto& [name, type] : own) {
    GW_REQUIRE(from.at(name).type == type, "state \"", name, "\": expected ", to_string(type),
               ", the snapshot of \"", from.program, "\" has ", to_string(from.at(name).type));
  }
  std::set<std::string> names;
  for (const auto& [name, type] : own) names.insert(name);
  internal::tell_of_failed_runs(*impl_, names);
  snapshot.wait();
  // Shared, since a caller that waits may be cancelled before all writes have ended. Guarded by the
  // session's notify.mutex.
  struct Outcome {
    size_t under_way = 0;
    std::optional<Error> failed;
  };
  const auto outcome = std::make_shared<Outcome>();
  outcome->under_way = own.size();
  for (const auto& [name, type] : own) {
    const internal::Bulk::PartPtr& bytes = from.arrival->bytes;
    session.bulk.take_place();
    session.bulk.send(
        {.kind = HostTransferKind::kWriteState,
         .at = {bytes->segment(), bytes->offset() + from.at(name).offset, type.bytes()},
         .scope = {impl_->id},
         .name = name},
        bytes, [outcome](const HostTransferDoneFrame& ended) {
          --outcome->under_way;
          if (ended.error && !outcome->failed) outcome->failed = ended.error;
        });
  }
  session.notify.wait([&] { return outcome->under_way == 0; });
  if (outcome->failed) throw Error(*outcome->failed);
}

}  // namespace gangway
