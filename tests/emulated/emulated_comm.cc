// Communicators of the emulated driver.
#include <algorithm>
#include <cstring>

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
  uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof(number));
  const auto group = core_.groups.find(number);
  if (group == core_.groups.end() || rank >= size)
    return to_error(misuse("create_comm", cat("names no group, or rank ", rank, " of ", size)));
  group->second->size = size;
  if (!group->second->members.insert(rank).second)
    return to_error(misuse("create_comm", cat("makes rank ", rank, " twice")));
  comms_.push_back(std::make_shared<Comm>(Comm{.group = group->second, .rank = rank}));
  return CommHandle{comms_.size()};
}

Status EmulatedDriver::query(CommHandle handle) {
  const auto lock = enter("query communicator");
  if (!handle || handle.bits > comms_.size()) return misuse("query", "names no communicator");
  Comm& comm = *comms_[handle.bits - 1];
  if (!state().lost.ok()) return state().told = true, state().lost;
  if (comm.group->aborted) {
    comm.told = true;
    return {StatusKind::kAborted, false, "the communicator was aborted"};
  }
  const bool all = comm.group->members.size() == comm.group->size;
  return {all ? StatusKind::kOk : StatusKind::kNotReady, false, {}};
}

EmulatedDriver::Comm* EmulatedDriver::usable(CommHandle handle, std::string_view label,
                                             Status& status) {
  if (!handle || handle.bits > comms_.size() || comms_[handle.bits - 1] == nullptr) {
    status = misuse(label, "names no communicator");
    return nullptr;
  }
  Comm& comm = *comms_[handle.bits - 1];
  if (!comm.group->aborted) return &comm;
  if (comm.told)
    core_.report(Fault::kAfterError, std::string(label), "uses a communicator that was aborted");
  comm.told = true;
  status = {StatusKind::kAborted, false, std::string(label)};
  return nullptr;
}

Status EmulatedDriver::collective(At at, CommHandle handle, CollectiveKind kind,
                                  std::span<const CollectiveTensor> tensors, Reduction reduction) {
  const auto lock = enter(at.label);
  Status status;
  Comm* comm = usable(handle, at.label, status);
  if (comm == nullptr) return status;
  const int64_t size = comm->group->size;
  const bool wide_in = kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll;
  const bool wide_out = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll;
  std::string what = cat(static_cast<int>(kind), "/", static_cast<int>(reduction));
  std::vector<Access> accesses;
  for (const CollectiveTensor& tensor : tensors) {
    const int64_t part = tensor.elements * static_cast<int64_t>(size_of(tensor.dtype));
    what += cat(" ", to_string(tensor.dtype), "[", tensor.elements, "]");
    accesses.push_back({tensor.in, wide_in ? part * size : part, AccessKind::kRead});
    accesses.push_back({tensor.out, wide_out ? part * size : part, AccessKind::kWrite});
  }
  const std::vector<CollectiveTensor> kept(tensors.begin(), tensors.end());
  const auto make = [this, comm, kind, reduction, what, kept, accesses,
                     label = std::string(at.label)] {
    const std::shared_ptr<Group> group = comm->group;
    std::shared_ptr<Meeting>& place = group->meetings[comm->next++];
    if (place == nullptr)
      place = std::make_shared<Meeting>(Meeting{.what = what, .tensors = {}, .arrived = {}});
    const std::shared_ptr<Meeting> meeting = place;
    if (meeting->what != what)
      core_.report(Fault::kMisuse, label,
                   cat("differs from what its peers do: ", what, " and ", meeting->what));
    meeting->tensors.resize(group->size);
    meeting->tensors[comm->rank] = kept;
    return Operation{.ready =
                         [group, meeting, rank = comm->rank] {
                           meeting->arrived.insert(rank);
                           return group->aborted || meeting->arrived.size() == group->size;
                         },
                     .run =
                         [this, group, meeting, kind, reduction, accesses, label] {
                           for (const Access& access : accesses) {
                             if (access.kind == AccessKind::kRead)
                               core_.check_initialised(access.data, access.bytes, label);
                           }
                           if (!group->aborted && !meeting->ran) perform(*meeting, kind, reduction);
                           meeting->ran = true;
                           return Status{};
                         }};
  };
  return enqueue(at, {{}, std::move(accesses), make}, true);
}

// All that members gave is read before anything is written, since `out` may be `in`.
void EmulatedDriver::perform(const Meeting& meeting, CollectiveKind kind, Reduction reduction) {
  const auto size = static_cast<int64_t>(meeting.tensors.size());
  for (size_t t = 0; t < meeting.tensors[0].size(); ++t) {
    const CollectiveTensor& first = meeting.tensors[0][t];
    const int64_t n = first.elements;
    const bool wide_in =
        kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll;
    std::vector<std::vector<double>> given;
    for (const auto& tensors : meeting.tensors) {
      const std::byte* in = t < tensors.size() ? core_.bytes_at(tensors[t].in) : nullptr;
      given.emplace_back(static_cast<size_t>(wide_in ? n * size : n), 0);
      for (size_t i = 0; in != nullptr && i < given.back().size(); ++i)
        given.back()[i] = element(first.dtype, in, static_cast<int64_t>(i));
    }
    const auto reduced = [&](int64_t i) {
      double value = given[0][static_cast<size_t>(i)];
      for (size_t r = 1; r < given.size(); ++r)
        value = joined(reduction, value, given[r][static_cast<size_t>(i)]);
      return value;
    };
    for (int64_t rank = 0; rank < size; ++rank) {
      void* const address = meeting.tensors[static_cast<size_t>(rank)][t].out;
      std::byte* const out = core_.bytes_at(address);
      if (out == nullptr) continue;
      const bool wide_out = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll;
      const int64_t count = wide_out ? n * size : n;
      for (int64_t i = 0; i < count; ++i) {
        const auto peer = static_cast<size_t>(i / std::max<int64_t>(n, 1));
        double value = 0;
        switch (kind) {
          case CollectiveKind::kAllReduce: value = reduced(i); break;
          case CollectiveKind::kReduceScatter: value = reduced(rank * n + i); break;
          case CollectiveKind::kAllGather: value = given[peer][static_cast<size_t>(i % n)]; break;
          case CollectiveKind::kAllToAll:
            value = given[peer][static_cast<size_t>(rank * n + i % n)];
            break;
        }
        set_element(first.dtype, out, i, value);
      }
      core_.mark_initialised(address, count * static_cast<int64_t>(size_of(first.dtype)));
    }
  }
}

Status EmulatedDriver::all_reduce(At at, CommHandle comm, std::span<const CollectiveTensor> tensors,
                                  Reduction reduction) {
  return collective(at, comm, CollectiveKind::kAllReduce, tensors, reduction);
}
Status EmulatedDriver::all_gather(At at, CommHandle comm,
                                  std::span<const CollectiveTensor> tensors) {
  return collective(at, comm, CollectiveKind::kAllGather, tensors, Reduction::kSum);
}
Status EmulatedDriver::reduce_scatter(At at, CommHandle comm,
                                      std::span<const CollectiveTensor> tensors,
                                      Reduction reduction) {
  return collective(at, comm, CollectiveKind::kReduceScatter, tensors, reduction);
}
Status EmulatedDriver::all_to_all(At at, CommHandle comm,
                                  std::span<const CollectiveTensor> tensors) {
  return collective(at, comm, CollectiveKind::kAllToAll, tensors, Reduction::kSum);
}

Status EmulatedDriver::exchange(At at, CommHandle handle, std::span<const Message> messages) {
  const auto lock = enter(at.label);
  Status status;
  Comm* comm = usable(handle, at.label, status);
  if (comm == nullptr) return status;
  std::vector<Access> accesses;
  for (const Message& message : messages) {
    if (message.peer >= comm->group->size) return misuse(at.label, "names no member");
    accesses.push_back(
        {message.data, message.bytes,
         message.direction == Message::kSend ? AccessKind::kRead : AccessKind::kWrite});
  }
  const std::vector<Message> kept(messages.begin(), messages.end());
  return enqueue(at,
                 {{},
                  std::move(accesses),
                  [this, comm, kept, label = std::string(at.label)] {
                    return exchange_once(*comm, kept, label);
                  }},
                 true);
}

Operation EmulatedDriver::exchange_once(Comm& comm, const std::vector<Message>& messages,
                                        const std::string& label) {
  const std::shared_ptr<Group> group = comm.group;
  std::vector<std::shared_ptr<Letter>> letters;
  for (const Message& message : messages) {
    const bool send = message.direction == Message::kSend;
    const uint64_t number = send ? comm.sent[message.peer]++ : comm.received[message.peer]++;
    auto& letter =
        group->letters[{send ? comm.rank : message.peer, send ? message.peer : comm.rank, number}];
    if (letter == nullptr) letter = std::make_shared<Letter>();
    (send ? letter->bytes : letter->room) = message.bytes;
    if (send) letter->from = message.data;
    if (!send) letter->to = message.data;
    letters.push_back(letter);
  }
  const auto ready = [group, letters, messages] {
    bool all = true;
    for (size_t i = 0; i < letters.size(); ++i) {
      Letter& letter = *letters[i];
      (messages[i].direction == Message::kSend ? letter.sent : letter.awaited) = true;
      all = all && letter.sent && letter.awaited;
    }
    return group->aborted || all;
  };
  const auto run = [this, group, letters, label] {
    for (const auto& letter : letters) {
      if (!group->aborted && !letter->delivered) deliver(*letter, label);
    }
    return Status{};
  };
  return {.ready = ready, .run = run};
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
  if (!handle || handle.bits > comms_.size()) return misuse("abort", "names no communicator");
  comms_[handle.bits - 1]->group->aborted = true;
  core_.changed.notify_all();
  return {};
}

void EmulatedDriver::destroy(CommHandle handle) {
  const auto lock = enter("destroy communicator");
  if (handle && handle.bits <= comms_.size()) comms_[handle.bits - 1]->group->members.clear();
}

}  // namespace gangway::emulated
