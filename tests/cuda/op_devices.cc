#include "tests/cuda/op_devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "executor/collectives/hosts/group_links.h"
#include "executor/devices/task.h"
#include "executor/store/buffer.h"
#include "runtime/fibers/mailbox.h"

namespace gangway {

// One device's part of a run.
struct OpDevices::Call {
  CudaDevice* device = nullptr;
  std::shared_ptr<const CompiledFunction> compiled;
  std::vector<Type> results;
  std::vector<std::byte*> bases;
  uint32_t mesh_device = 0;
  CallFrame frame;  // The frame of the current run.
  std::vector<BufferPtr> buffers;
  std::vector<HostMemory> in, out;
  std::vector<int64_t> in_bytes;
  std::vector<std::unique_ptr<Collective>> collectives;
  std::atomic<bool> done{false};
};

OpDevices::OpDevices(Card card, uint32_t count) : card_(std::move(card)), bells_(count) {
  const auto gpu = std::make_shared<cuda::Gpu>(card_.driver);
  for (uint32_t i = 0; i < count; ++i) {
    devices_.push_back(std::make_unique<CudaDevice>(
        CudaDeviceOptions{.name = cat("cuda-", i), .memory_bytes = int64_t{1} << 30, .gpu = gpu}));
    devices_.back()->stream().use_bell({&bells_[i], nullptr});
  }
}

void OpDevices::prepare(Call& call, const std::shared_ptr<const Function>& function,
                        const std::vector<Literal>& arguments) {
  CudaDevice& device = *call.device;
  call.compiled =
      device.compiler().compile({.function = function,
                                 .commit_begin = static_cast<NodeId>(function->nodes.size()),
                                 .numerics = numerics});
  const auto add = [&](int64_t bytes) {
    call.buffers.push_back(allocate_buffer(device.memory(), bytes, "tensor"));
    call.bases.push_back(call.buffers.back()->data());
  };
  for (const Literal& argument : arguments) {
    const std::vector<std::byte> bytes = to_bytes(argument);
    const auto size = static_cast<int64_t>(bytes.size());
    call.in.push_back(device.memory().host_memory(size));
    call.in_bytes.push_back(size);
    device.memory().host_access(HostAccess::kWrite, call.in.back().get(), size);
    std::copy(bytes.begin(), bytes.end(), call.in.back().get());
    add(size);
  }
  for (ValueId result : function->results) {
    call.results.push_back(function->types[result]);
    call.out.push_back(device.memory().host_memory(call.results.back().bytes()));
    add(call.results.back().bytes());
  }
  add(call.compiled->arena_bytes());
}

void OpDevices::join(std::vector<std::unique_ptr<Call>>& calls) {
  const size_t needs = calls[0]->compiled->collective_needs().size();
  std::vector<Device*> members;
  for (const auto& call : calls) members.push_back(call->device);
  for (size_t need = 0; need < needs; ++need) {
    std::vector<GroupDevice> ranks;
    GroupLinks links;
    for (uint32_t r = 0; r < calls.size(); ++r) {
      ranks.push_back({0, r});
      links.bells.push_back({&bells_[r], nullptr});
      links.meters.push_back(nullptr);
    }
    GroupView view = group_of("all", ranks, 0, 0, false, [](uint32_t) { return LinkClass::kHost; });
    carry_sizes(view, calls[0]->compiled->collective_needs()[need].kinds);
    auto rendezvous = join_group(view, links);
    for (size_t r = 0; r < calls.size(); ++r) {
      Call& call = *calls[r];
      const int64_t bytes = call.compiled->collective_needs()[need].bytes_max;
      call.collectives.push_back(call.device->collective(
          {.all = std::move(rendezvous[r])},
          DeviceGroup{.name = "all",
                      .members = members,
                      .links = std::vector<LinkClass>(members.size(), LinkClass::kHost),
                      .bytes_max = bytes,
                      .kinds = call.compiled->collective_needs()[need].kinds}));
      Collective& made = *call.collectives.back();
      call.buffers.push_back(
          allocate_buffer(call.device->memory(), made.staging_bytes(), "staging"));
      made.use_staging(call.buffers.back()->data());
    }
  }
}

void OpDevices::enqueue(Call& call) {
  call.frame = {.bases = call.bases, .mesh_device = call.mesh_device};
  for (const auto& collective : call.collectives)
    call.frame.collectives.push_back(collective.get());
  call.done = false;
  const uint32_t steps = call.compiled->step_count();
  const auto body = [&call, steps, section = section_steps](Turn& turn) {
    CallFrame& frame = call.frame;
    if (frame.step == 0 && !frame.begun) {
      for (size_t i = 0; i < call.in.size(); ++i)
        turn.stream.copy(frame.bases[i], call.in[i].get(), call.in_bytes[i]);
    }
    do {
      frame.end = section == 0 ? steps : std::min(steps, frame.step + section);
      if (call.compiled->advance(frame, turn) == Progress::kPending) return Progress::kPending;
    } while (frame.step < steps);
    for (size_t r = 0; r < call.out.size(); ++r)
      turn.stream.copy(call.out[r].get(), frame.bases[call.in.size() + r], call.results[r].bytes());
    return Progress::kDone;
  };
  enqueue_task(call.device->stream(), body,
               [this, &call](const std::shared_ptr<const Error>& failure) {
                 EXPECT_EQ(failure, nullptr) << failure->what();
                 EXPECT_EQ(call.frame.error, nullptr) << call.frame.error->what();
                 reactor_->mailbox().post([&call] { call.done = true; });
               });
}

std::vector<Literal> OpDevices::results_of(Call& call) {
  std::vector<Literal> results;
  for (size_t r = 0; r < call.out.size(); ++r) {
    const int64_t bytes = call.results[r].bytes();
    call.device->memory().host_access(HostAccess::kRead, call.out[r].get(), bytes);
    results.push_back(from_bytes(call.results[r], {call.out[r].get(), static_cast<size_t>(bytes)}));
  }
  return results;
}

std::vector<std::vector<Literal>> OpDevices::run(const std::shared_ptr<const Function>& function,
                                                 const std::vector<std::vector<Literal>>& arguments,
                                                 int times) {
  std::vector<std::unique_ptr<Call>> calls;
  for (size_t d = 0; d < arguments.size(); ++d) {
    calls.push_back(std::make_unique<Call>());
    calls.back()->device = devices_[d].get();
    calls.back()->mesh_device = static_cast<uint32_t>(d);
    prepare(*calls.back(), function, arguments[d]);
  }
  join(calls);
  for (int run = 0; run < times; ++run) {
    for (auto& call : calls) enqueue(*call);
    reactor_->run_until([&] {
      return std::ranges::all_of(calls, [](const auto& call) { return call->done.load(); });
    });
  }
  std::vector<std::vector<Literal>> results;
  for (auto& call : calls) results.push_back(results_of(*call));
  return results;
}

}  // namespace gangway
