// Communicators of the emulated driver.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/emulated/elements.h"
#include "tests/emulated/emulated_driver.h"
#include "tests/emulated/group.h"

namespace gangway::emulated {

using namespace cuda;

namespace {

double joined(Reduction reduction, double a, double b) {
  switch (reduction) {
    case Reduction::kSum: return a + b;
    case Reduction::kMax: return std::max(a, b);
    case Reduction::kMin: break;
  }
  return std::min(a, b);
}

std::vector<Access> accesses_of(const std::vector<Message>& messages) {
  std::vector<Access> accesses;
  for (const Message& message : messages) {
    accesses.push_back(
        {message.data, message.bytes,
         message.direction == Message::kSend ? AccessKind::kRead : AccessKind::kWrite});
  }
  return accesses;
}

}  // namespace

Result<CommId> EmulatedDriver::new_comm_id() {
  const auto lock = enter("new_comm_id");
  const uint64_t number = core_.groups.size() + 1;
  core_.groups[number] = std::make_shared<Group>();
  CommId id;
  std::memcpy(id.bytes, &number, sizeof(number));
  return id;
}

Result<CommHandle> EmulatedDriver::create_comm(const CommId& id, uint32_t rank, uint32_t size) {
  const auto lock = enter("create_comm");
  if (Status status = lost("create_comm"); !status.ok()) return to_error(status);
  for (StatusKind kind : {StatusKind::kLaunch, StatusKind::kOutOfMemory, StatusKind::kAborted}) {
    if (core_.take_injection(kind, "create_comm")) return to_error({kind, false, "create_comm"});
  }
  uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof(number));
  const auto found = core_.groups.find(number);
  if (found == core_.groups.end() || rank >= size)
    return to_error(misuse("create_comm", cat("names no group, or rank ", rank, " of ", size)));
  Group& group = *found->second;
  group.size = size;
  if (group.members.contains(rank))
    return to_error(misuse("create_comm", cat("makes rank ", rank, " twice")));
  for (const auto& [other, member] : group.members) {
    const auto comm = member.lock();
    if (comm != nullptr && comm->device == device_)
      return to_error(
          misuse("create_comm", cat("makes ranks ", other, " and ", rank, " on one card")));
  }
  comms_.push_back(
      std::make_shared<Comm>(Comm{.group = found->second, .device = device_, .rank = rank}));
  group.members[rank] = comms_.back();
  ++core_.communicators_made;
  return CommHandle{comms_.size()};
}

Status EmulatedDriver::query(CommHandle handle) {
  const auto lock = enter("query communicator");
  if (!handle || handle.bits > comms_.size() || comms_[handle.bits - 1]->destroyed)
    return misuse("query", "names no communicator");
  core_.advance_some();
  Comm& comm = *comms_[handle.bits - 1];
  if (!state().lost.ok()) return tell();
  if (comm.aborted || comm.broken) {
    comm.told = true;
    return {StatusKind::kAborted, false,
            comm.aborted ? "the communicator was aborted" : "the communicator broke"};
  }
  const bool all = comm.group->members.size() == comm.group->size;
  return {all ? StatusKind::kOk : StatusKind::kNotReady, false, {}};
}

std::shared_ptr<EmulatedDriver::Comm> EmulatedDriver::usable(CommHandle handle,
                                                             std::string_view label,
                                                             Status& status) {
  if (!handle || handle.bits > comms_.size() || comms_[handle.bits - 1]->destroyed) {
    status = misuse(label, "names no communicator");
    return nullptr;
  }
  const std::shared_ptr<Comm>& comm = comms_[handle.bits - 1];
  if (!comm->aborted && !comm->broken) return comm;
  if (comm->told)
    core_.report(Fault::kAfterError, std::string(label), "uses a communicator that was aborted");
  comm->told = true;
  status = {StatusKind::kAborted, false, std::string(label)};
  return nullptr;
}

bool EmulatedDriver::gone(const Group& group, uint32_t rank) const {
  const auto found = group.members.find(rank);
  if (found == group.members.end()) return false;  // The member has not come yet.
  const auto comm = found->second.lock();
  return comm == nullptr || comm->aborted || comm->broken || !core_.devices[comm->device].lost.ok();
}

Operation EmulatedDriver::operation_of(const std::shared_ptr<Comm>& comm, const std::string& label,
                                       std::vector<Access> accesses, std::function<bool()> arrive,
                                       std::function<void()> run) {
  ++comm->in_flight;
  const bool breaks = core_.take_injection(StatusKind::kAborted, label);
  return {.ready =
              [comm, breaks, arrive = std::move(arrive)] {
                if (comm->aborted) return true;
                comm->broken = comm->broken || breaks;
                return !comm->broken && arrive();
              },
          .run =
              [this, comm, label, accesses = std::move(accesses), run = std::move(run)] {
                --comm->in_flight;
                if (!comm->aborted) return run(), Status{};
                for (const Access& access : accesses) core_.spoil(access);
                return Status{};
              }};
}

Status EmulatedDriver::collective(At at, CommHandle handle, const Together& together,
                                  std::span<const CollectiveTensor> tensors) {
  const auto lock = enter(at.label);
  Status status;
  const std::shared_ptr<Comm> comm = usable(handle, at.label, status);
  if (comm == nullptr) return status;
  const int64_t size = comm->group->size;
  const CollectiveKind kind = together.kind;
  if (together.root >= comm->group->size) return misuse(at.label, "names no root");
  const bool wide_in = kind == CollectiveKind::kReduceScatter;
  const bool wide_out = kind == CollectiveKind::kAllGather;
  // In a broadcast only the root reads its input.
  const bool reads = kind != CollectiveKind::kBroadcast || comm->rank == together.root;
  std::string what =
      cat(to_string(kind), "/", static_cast<int>(together.reduction), "/", together.root);
  std::vector<Access> accesses;
  for (const CollectiveTensor& tensor : tensors) {
    const int64_t part = tensor.elements * static_cast<int64_t>(size_of(tensor.dtype));
    what += cat(" ", to_string(tensor.dtype), "[", tensor.elements, "]");
    if (reads) accesses.push_back({tensor.in, wide_in ? part * size : part, AccessKind::kRead});
    accesses.push_back({tensor.out, wide_out ? part * size : part, AccessKind::kWrite});
  }
  const std::vector<CollectiveTensor> kept(tensors.begin(), tensors.end());
  const auto make = [this, comm, together, what, kept, accesses, label = std::string(at.label)] {
    const std::shared_ptr<Group> group = comm->group;
    std::shared_ptr<Rendezvous>& place = group->rendezvous[comm->next++];
    if (place == nullptr)
      place = std::make_shared<Rendezvous>(Rendezvous{.what = what, .tensors = {}, .arrived = {}});
    const std::shared_ptr<Rendezvous> rendezvous = place;
    if (rendezvous->what != what)
      core_.report(Fault::kMisuse, label,
                   cat("differs from what its peers do: ", what, " and ", rendezvous->what));
    rendezvous->tensors.resize(group->size);
    rendezvous->tensors[comm->rank] = kept;
    const auto arrive = [this, group, rendezvous, rank = comm->rank] {
      rendezvous->arrived.insert(rank);
      if (rendezvous->ran) return true;
      for (uint32_t r = 0; r < group->size; ++r) {
        if (!rendezvous->arrived.contains(r) || gone(*group, r)) return false;
      }
      return true;
    };
    const auto run = [this, rendezvous, together, accesses, label] {
      for (const Access& access : accesses) {
        if (access.kind == AccessKind::kRead)
          core_.check_initialised(access.data, access.bytes, label);
      }
      if (!rendezvous->ran) perform(*rendezvous, together);
      rendezvous->ran = true;
    };
    return operation_of(comm, label, accesses, arrive, run);
  };
  return enqueue(at, {{}, std::move(accesses), make}, true);
}

// Reads the tensors of all members before it writes any, since `out` may be `in`.
void EmulatedDriver::perform(const Rendezvous& rendezvous, const Together& together) {
  const auto size = static_cast<int64_t>(rendezvous.tensors.size());
  const bool scatters = together.kind == CollectiveKind::kReduceScatter;
  for (size_t t = 0; t < rendezvous.tensors[0].size(); ++t) {
    if (!scatters && together.kind != CollectiveKind::kAllReduce) {
      perform_move(rendezvous, together, t);
      continue;
    }
    const CollectiveTensor& first = rendezvous.tensors[0][t];
    const int64_t n = first.elements;
    std::vector<std::vector<double>> given;
    for (const auto& tensors : rendezvous.tensors) {
      const std::byte* in = t < tensors.size() ? core_.bytes_at(tensors[t].in) : nullptr;
      given.emplace_back(static_cast<size_t>(scatters ? n * size : n), 0);
      for (size_t i = 0; in != nullptr && i < given.back().size(); ++i)
        given.back()[i] = element(first.dtype, in, static_cast<int64_t>(i));
    }
    for (int64_t rank = 0; rank < size; ++rank) {
      void* const address = rendezvous.tensors[static_cast<size_t>(rank)][t].out;
      std::byte* const out = core_.bytes_at(address);
      if (out == nullptr) continue;
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(scatters ? rank * n + i : i);
        double value = given[0][at];
        for (size_t r = 1; r < given.size(); ++r)
          value = joined(together.reduction, value, given[r][at]);
        set_element(first.dtype, out, i, value);
      }
      core_.mark_initialised(address, bytes_of(first));
    }
  }
}

// Moves bytes without looking at their type.
void EmulatedDriver::perform_move(const Rendezvous& rendezvous, const Together& together,
                                  size_t tensor) {
  const size_t size = rendezvous.tensors.size();
  const auto part = static_cast<size_t>(bytes_of(rendezvous.tensors[0][tensor]));
  std::vector<std::vector<std::byte>> given;
  for (const auto& tensors : rendezvous.tensors) {
    const std::byte* in = tensor < tensors.size() ? core_.bytes_at(tensors[tensor].in) : nullptr;
    given.emplace_back(part, std::byte{0});
    if (in != nullptr) std::copy_n(in, part, given.back().begin());
  }
  for (size_t rank = 0; rank < size; ++rank) {
    void* const address = rendezvous.tensors[rank][tensor].out;
    std::byte* const out = core_.bytes_at(address);
    if (out == nullptr) continue;
    if (together.kind == CollectiveKind::kBroadcast) {
      std::copy_n(given[together.root].begin(), part, out);
      core_.mark_initialised(address, static_cast<int64_t>(part));
      continue;
    }
    for (size_t peer = 0; peer < size; ++peer)
      std::copy_n(given[peer].begin(), part, out + peer * part);
    core_.mark_initialised(address, static_cast<int64_t>(part * size));
  }
}

Status EmulatedDriver::all_reduce(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                                  Reduction reduction) {
  return collective(at, comm, {.kind = CollectiveKind::kAllReduce, .reduction = reduction},
                    tensors);
}
Status EmulatedDriver::all_gather(At at, CommHandle comm,
                                  std::span<const CollectiveTensor> tensors) {
  return collective(at, comm, {.kind = CollectiveKind::kAllGather}, tensors);
}
Status EmulatedDriver::reduce_scatter(At at, CommHandle comm,
                                      std::span<const CollectiveTensor> tensors,
                                      Reduction reduction) {
  return collective(at, comm, {.kind = CollectiveKind::kReduceScatter, .reduction = reduction},
                    tensors);
}
Status EmulatedDriver::broadcast(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                                 uint32_t root) {
  return collective(at, comm, {.kind = CollectiveKind::kBroadcast, .root = root}, tensors);
}

Status EmulatedDriver::exchange(At at, CommHandle handle, std::span<const Message> messages) {
  const auto lock = enter(at.label);
  Status status;
  const std::shared_ptr<Comm> comm = usable(handle, at.label, status);
  if (comm == nullptr) return status;
  for (const Message& message : messages) {
    if (message.peer >= comm->group->size) return misuse(at.label, "names no member");
  }
  const std::vector<Message> kept(messages.begin(), messages.end());
  return enqueue(at,
                 {{},
                  accesses_of(kept),
                  [this, comm, kept, label = std::string(at.label)] {
                    return exchange_once(comm, kept, label);
                  }},
                 true);
}

Operation EmulatedDriver::exchange_once(const std::shared_ptr<Comm>& comm,
                                        const std::vector<Message>& messages,
                                        const std::string& label) {
  const std::shared_ptr<Group> group = comm->group;
  std::vector<std::shared_ptr<Letter>> letters;
  for (const Message& message : messages) {
    const bool send = message.direction == Message::kSend;
    const uint64_t number = send ? comm->sent[message.peer]++ : comm->received[message.peer]++;
    auto& letter =
        group
            ->letters[{send ? comm->rank : message.peer, send ? message.peer : comm->rank, number}];
    if (letter == nullptr) letter = std::make_shared<Letter>();
    (send ? letter->bytes : letter->room) = message.bytes;
    if (send) letter->from = message.data;
    if (!send) letter->to = message.data;
    letters.push_back(letter);
  }
  const auto arrive = [this, group, letters, messages] {
    for (size_t i = 0; i < letters.size(); ++i)
      (messages[i].direction == Message::kSend ? letters[i]->sent : letters[i]->awaited) = true;
    bool all = true;
    for (size_t i = 0; i < letters.size(); ++i) {
      const Letter& letter = *letters[i];
      const bool met = letter.sent && letter.awaited && !gone(*group, messages[i].peer);
      all = all && (letter.delivered || met);
    }
    return all;
  };
  const auto run = [this, letters, label] {
    for (const auto& letter : letters) {
      if (!letter->delivered) deliver(*letter, label);
    }
  };
  return operation_of(comm, label, accesses_of(messages), arrive, run);
}

void EmulatedDriver::deliver(Letter& letter, const std::string& label) {
  letter.delivered = true;
  if (letter.bytes != letter.room) {
    core_.report(Fault::kMisuse, label,
                 cat("sends ", letter.bytes, " bytes to a peer that expects ", letter.room));
    return;
  }
  const std::byte* from = core_.bytes_at(letter.from);
  std::byte* to = core_.bytes_at(letter.to);
  if (from == nullptr || to == nullptr || letter.bytes == 0) return;
  core_.check_initialised(letter.from, letter.bytes, label);
  std::memcpy(to, from, static_cast<size_t>(letter.bytes));
  core_.mark_initialised(letter.to, letter.bytes);
}

Status EmulatedDriver::abort(CommHandle handle) {
  const auto lock = enter("abort");
  if (!handle || handle.bits > comms_.size() || comms_[handle.bits - 1]->destroyed)
    return misuse("abort", "names no communicator");
  if (!std::exchange(comms_[handle.bits - 1]->aborted, true)) ++core_.communicators_aborted;
  core_.changed.notify_all();
  return {};
}

void EmulatedDriver::destroy(CommHandle handle) {
  const auto lock = enter("destroy communicator");
  if (!handle || handle.bits > comms_.size()) return;
  Comm& comm = *comms_[handle.bits - 1];
  // A card would wait for them here.
  if (comm.in_flight > 0 && !comm.aborted && state().lost.ok())
    core_.report(Fault::kMisuse, "destroy", "ends a communicator whose operations are in flight");
  comm.destroyed = true;
}

}  // namespace gangway::emulated
