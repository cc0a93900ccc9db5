#include "executor/host/host_arrays.h"

#include <optional>

#include "executor/devices/task.h"
#include "executor/replay/order_log.h"
#include "runtime/fibers/mailbox.h"
#include "runtime/fibers/reactor.h"
#include "runtime/os/landing_log.h"

namespace gangway {

void HostArrays::put(uint64_t request, ArrayId array, TensorShards tensor,
                     const ClientBytes& from) {
  copy_shards(request, tensor, from, Direction::kIn);
  add(array, std::move(tensor));
}

void HostArrays::get(uint64_t request, ArrayId array, const ClientBytes& to) {
  const TensorShards* found = find(array);
  GW_REQUIRE(found != nullptr, "get: array ", array, " is not here");
  copy_shards(request, *found, to, Direction::kOut);
}

const TensorShards* HostArrays::find(ArrayId id) const {
  const auto found = arrays_.find(id);
  return found == arrays_.end() ? nullptr : &found->second;
}

void HostArrays::free(std::span<const ArrayId> ids) {
  for (ArrayId id : ids) arrays_.erase(id);
}

namespace {

const TensorShards& shards_with(StateStore& states, StateScope scope, const std::string& name,
                                const Box& part) {
  const State& state = states.get(scope, name);
  GW_REQUIRE(state.on_host == nullptr, "state \"", name, "\": its program is suspended");
  const TensorShards& shards = state.shards;
  GW_REQUIRE(part.begin.empty() ? part.size.empty() : lies_in(part, shards.type.dims), "state \"",
             name, "\": a part of another tensor: ", to_string(part), " of ",
             to_string(shards.type));
  return shards;
}

}  // namespace

void HostArrays::read_state(uint64_t request, StateScope scope, const std::string& name,
                            const ClientBytes& to, Ticket ticket, const Box& part) {
  copy_shards(request, shards_with(states_, scope, name, part), to, Direction::kOut, ticket, part);
}

void HostArrays::write_state(uint64_t request, StateScope scope, const std::string& name,
                             const ClientBytes& from, Ticket ticket, const Box& part) {
  copy_shards(request, shards_with(states_, scope, name, part), from, Direction::kIn, ticket, part);
}

namespace {

// A put or get in several parts, one on each device; the last part to end reports the result.
struct Copy {
  SharedSegment segment;
  std::byte* bytes = nullptr;
  std::vector<std::shared_ptr<void>> pins;  // Pins `bytes` for the devices that copy.
  size_t running = 0;                       // Reactor thread.
  std::optional<Error> error;
};

void copy_shard(DeviceStream& stream, const ShardRuns& runs, const Shard& shard, std::byte* client,
                bool in) {
  stream.moved.add(LinkClass::kHost, runs.bytes());  // Clients are on this machine.
  runs.for_each_rows([&](const ShardRuns::Rows& rows) {
    std::byte* const there = client + rows.in_part;
    std::byte* const here = shard.buffer->data() + rows.in_shard;
    stream.copy_rows({.to = in ? here : there,
                      .to_step = in ? rows.shard_step : rows.part_step,
                      .from = in ? there : here,
                      .from_step = in ? rows.part_step : rows.shard_step,
                      .bytes = rows.bytes,
                      .rows = rows.count});
  });
}

void require_fits(const ClientBytes& client, int64_t bytes, const Type& type, const Box& part) {
  GW_REQUIRE(client.bytes == bytes && client.offset >= 0 &&
                 client.segment.bytes >= static_cast<uint64_t>(bytes) &&
                 static_cast<uint64_t>(client.offset) <=
                     client.segment.bytes - static_cast<uint64_t>(bytes),
             "copy: the client's memory does not fit ",
             part.begin.empty() ? "" : cat(to_string(part), " of "), to_string(type), ": expected ",
             bytes, " bytes, got ", client.bytes, " at ", client.offset, " of ",
             client.segment.bytes);
}

}  // namespace

void HostArrays::copy_shards(uint64_t request, const TensorShards& tensor,
                             const ClientBytes& client, Direction direction, Ticket ticket,
                             const Box& part) {
  const bool in = direction == Direction::kIn;
  std::vector<std::pair<Shard, ShardRuns>> parts;
  for (const Shard& shard : tensor.shards) {
    if (!in && !is_first_copy(tensor, shard.mesh_device)) continue;
    const ShardRuns runs(tensor, shard.mesh_device, part);
    if (part.begin.empty() || runs.bytes() > 0) parts.emplace_back(shard, runs);
  }
  auto copy = std::make_shared<Copy>();
  copy->running = parts.size();
  if (parts.empty()) {  // Its devices hold no part of the array.
    reactor_.mailbox().post([this, request, guard = open_] {
      if (*guard) events_.transfer_done({.request = request});
    });
    return;
  }
  const int64_t bytes =
      part.begin.empty() ? tensor.type.bytes() : Type{tensor.type.dtype, part.size}.bytes();
  require_fits(client, bytes, tensor.type, part);
  copy->segment = SharedSegment::open(client.segment);
  copy->bytes = copy->segment.data() + client.offset;
  // The segment is the client's whole heap, hardly any of which was ever touched. Each copy maps it
  // anew, so that no page of a mapping is registered twice. If memory can't be pinned, the copy
  // fails before any device writes to it.
  for (const auto& [shard, runs] : parts) {
    if (bytes > 0)
      copy->pins.push_back(devices_.all[shard.device]->memory().pin(copy->bytes, bytes));
  }
  for (const auto& [shard, runs] : parts) {
    DeviceStream& stream = devices_.all[shard.device]->stream();
    const auto log = ticket == Ticket() ? nullptr : devices_.options.order_log;
    const auto landings = in ? nullptr : devices_.options.landings;
    const auto start = [copy, shard, in, log, landings, ticket, runs, request, client](Turn& turn) {
      if (!in && shard.buffer->pending) return Progress::kPending;
      if (in) shard.buffer->settling = turn.stream.discrete();
      if (in || shard.buffer->error == nullptr) {
        copy_shard(turn.stream, runs, shard, copy->bytes, in);
        if (landings != nullptr)
          landings->writes(turn.stream.name(), request,
                           {client.segment, client.offset, client.bytes});
      }
      if (log != nullptr)
        log->record(
            {.device = turn.stream.name(), .ticket = ticket.value, .states = {shard.buffer.get()}});
      return Progress::kDone;
    };
    const auto end = [this, request, copy, shard, in, runs, bytes_of_shard = tensor.local.bytes(),
                      guard = open_](const std::shared_ptr<const Error>& failure) {
      if (in) {
        shard.buffer->settling = false;
        is_written(*shard.buffer, runs, bytes_of_shard, failure);
      }
      // The error that kept the buffer from being filled says more than that of the copy out of it.
      const auto error = !in && shard.buffer->error != nullptr ? shard.buffer->error : failure;
      reactor_.mailbox().post([this, request, copy, error, guard] {
        if (!*guard) return;
        if (error != nullptr && !copy->error) copy->error = *error;
        if (--copy->running == 0) events_.transfer_done({request, copy->error});
      });
    };
    const TaskOrder order{ticket.value, ticket == Ticket() ? nullptr : shard.buffer.get()};
    enqueue_task(stream, start, end, order);
  }
}

}  // namespace gangway
