#include <optional>

#include "executor/devices/task.h"
#include "executor/host/host_impl.h"
#include "runtime/fibers/mailbox.h"

namespace gangway {

void Host::Impl::put(uint64_t request, ArrayId array, PlanId like, uint32_t input,
                     const ClientBytes& from) {
  HostPlan& made = plan(like);
  GW_REQUIRE(made.stage == PlanStage::kReady && input < made.plan->inputs.size(), "put: plan ",
             like, " has no input ", input);
  TensorShards tensor = made.shards_of(made.plan->inputs[input]);
  for (Shard& shard : tensor.shards) {
    for (const auto& device : made.devices) {
      if (device->member.device != shard.device) continue;
      const auto& pool = device->input_pools[input];
      shard.buffer = pool != nullptr
                         ? pool->take()
                         : allocate_buffer(device->device->memory(), tensor.local.bytes(), "array");
    }
  }
  copy_shards(request, tensor, from, Direction::kIn);
  arrays[array] = std::move(tensor);
}

void Host::Impl::get(uint64_t request, ArrayId array, const ClientBytes& to) {
  const auto found = arrays.find(array);
  GW_REQUIRE(found != arrays.end(), "get: array ", array, " is not here");
  copy_shards(request, found->second, to, Direction::kOut);
}

void Host::Impl::free(std::span<const ArrayId> ids) {
  for (ArrayId id : ids) arrays.erase(id);
}

void Host::Impl::get_state(uint64_t request, StateScope scope, const std::string& name,
                           const ClientBytes& to) {
  copy_shards(request, states.get(scope, name).shards, to, Direction::kOut);
}

void Host::Impl::put_state(uint64_t request, StateScope scope, const std::string& name,
                           const ClientBytes& from) {
  copy_shards(request, states.get(scope, name).shards, from, Direction::kIn);
}

void Host::Impl::free_scope(StateScope scope) { states.drop(scope); }

namespace {

// A put or get in several parts, one on each device; the last one tells.
struct Copy {
  SharedSegment segment;
  std::byte* bytes = nullptr;
  std::vector<std::shared_ptr<void>> pins;  // Of `bytes`, for the devices that copy.
  size_t running = 0;                       // Reactor thread.
  std::optional<Error> error;
};

void copy_shard(Device& device, const TensorShards& tensor, const Shard& shard, std::byte* client,
                bool in) {
  ShardRuns(tensor, shard.mesh_device).for_each([&](int64_t global, int64_t local, int64_t bytes) {
    std::byte* there = client + global;
    std::byte* here = shard.buffer->data() + local;
    device.copy(in ? here : there, in ? there : here, bytes);
  });
}

}  // namespace

void Host::Impl::copy_shards(uint64_t request, const TensorShards& tensor,
                             const ClientBytes& client, Direction direction) {
  const bool in = direction == Direction::kIn;
  std::vector<Shard> parts;
  for (const Shard& shard : tensor.shards) {
    if (in || is_first_copy(tensor, shard.mesh_device)) parts.push_back(shard);
  }
  auto copy = std::make_shared<Copy>();
  copy->running = parts.size();
  if (parts.empty()) {  // Its devices hold nothing of it.
    reactor.mailbox().post([this, request, guard = alive] {
      if (*guard) events.copy_done({.request = request});
    });
    return;
  }
  const int64_t bytes = tensor.type.bytes();
  GW_REQUIRE(client.bytes == bytes && client.offset >= 0 &&
                 client.segment.bytes >= static_cast<uint64_t>(bytes) &&
                 static_cast<uint64_t>(client.offset) <=
                     client.segment.bytes - static_cast<uint64_t>(bytes),
             "copy: the client's memory does not fit ", to_string(tensor.type), ": expected ",
             bytes, " bytes, got ", client.bytes, " at ", client.offset, " of ",
             client.segment.bytes);
  copy->segment = SharedSegment::open(client.segment);
  copy->bytes = copy->segment.data() + client.offset;
  for (const Shard& shard : parts) {
    Device& device = *devices[shard.device];
    // The segment is the client's whole heap, hardly any of which was ever touched. Each copy
    // maps it anew, so that no page of a mapping is registered twice.
    if (bytes > 0) copy->pins.push_back(device.pin(copy->bytes, bytes));
    TensorShards facts{tensor.type, tensor.local, tensor.mesh, tensor.sharding, {}};
    const auto start = [copy, shard, in, facts = std::move(facts)](Turn& turn) {
      if (in || shard.buffer->error == nullptr)
        copy_shard(turn.device, facts, shard, copy->bytes, in);
      return Progress::kDone;
    };
    const auto end = [this, request, copy, shard, in,
                      guard = alive](const std::shared_ptr<const Error>& failure) {
      if (in) shard.buffer->error = failure;
      reactor.mailbox().post(
          [this, request, copy, error = in ? failure : shard.buffer->error, guard] {
            if (!*guard) return;
            if (error != nullptr && !copy->error) copy->error = *error;
            if (--copy->running == 0) events.copy_done({request, copy->error});
          });
    };
    enqueue_task(device, start, end);
  }
}

}  // namespace gangway
