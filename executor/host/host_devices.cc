#include "executor/host/host_devices.h"

#include <unistd.h>

#include <algorithm>

#include "executor/devices/cpu/cpu_device.h"
#include "executor/devices/cuda/cuda_device.h"
#include "executor/devices/sim/sim_device.h"
#include "executor/links/shared_link.h"
#include "executor/links/sim_link.h"
#include "runtime/base/units.h"
#include "runtime/observe/trace.h"

namespace gangway {
namespace {

// Devices share the cards evenly, as far as their numbers allow.
int64_t card_share(const HostOptions& options) {
  const auto cards = static_cast<int>(options.gpus.size());
  const int on_one = (options.devices + cards - 1) / cards;
  return options.gpus[0]->info().memory_free / on_one;
}

HostOptions filled_in(HostOptions options) {
  GW_REQUIRE(options.devices >= 1 && options.devices <= 4096, "host \"", options.name,
             "\": devices must be 1 to 4096, got ", options.devices);
  require_island_name(options.island, cat("host \"", options.name, "\""));
  if (options.kind == DeviceKind::kCuda) {
    if (options.gpus.empty()) {
      throw Error(ErrorKind::kUnimplemented,
                  cat("host \"", options.name, "\": there is no driver for CUDA devices"), {},
                  "use --device cpu");
    }
    if (options.memory_bytes <= 0) options.memory_bytes = card_share(options);
  }
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  if (options.memory_bytes <= 0) options.memory_bytes = machine / options.devices;
  if (options.suspended_bytes <= 0) options.suspended_bytes = machine / 2;
  if (options.threads <= 0) options.threads = std::max(1, available_cores() / options.devices);
  return options;
}

std::unique_ptr<Device> make_device(Reactor& reactor, const HostOptions& options,
                                    const std::vector<std::shared_ptr<cuda::Gpu>>& cards,
                                    int index) {
  const std::string name = cat(options.name, "/", index);
  switch (options.kind) {
    case DeviceKind::kCpu:
      return std::make_unique<CpuDevice>(
          CpuDeviceOptions{.name = name,
                           .memory_bytes = options.memory_bytes,
                           .threads = options.threads,
                           .wait = SpinPolicy::for_threads(options.devices * options.threads + 1),
                           .trusted = options.trusted});
    case DeviceKind::kSim:
      return std::make_unique<SimDevice>(reactor, name, options.memory_bytes, options.sim);
    case DeviceKind::kCuda: break;
  }
  return std::make_unique<CudaDevice>(
      CudaDeviceOptions{.name = name,
                        .memory_bytes = options.memory_bytes,
                        .gpu = cards[static_cast<size_t>(index) % cards.size()]});
}

std::string describe(const HostOptions& options, size_t index) {
  if (options.kind == DeviceKind::kCuda)
    return options.gpus[index % options.gpus.size()]->info().name;
  return cat(options.kind == DeviceKind::kSim ? "simulated" : "cpu", "  ", options.threads,
             " threads");
}

}  // namespace

HostDevices::HostDevices(Reactor& reactor, HostOptions given)
    : options(filled_in(std::move(given))) {
  const auto pins = std::make_shared<cuda::Pins>();
  for (const auto& driver : options.gpus)
    cards_.push_back(std::make_shared<cuda::Gpu>(driver, pins));
  for (int d = 0; d < options.devices; ++d) {
    DeviceStream& stream = all.emplace_back(make_device(reactor, options, cards_, d))->stream();
    if (options.tracer == nullptr) continue;
    stream.trace.host = trace_number(options.name);
    stream.trace.row = &options.tracer->add_row(stream.name());
    stream.trace.collectives_row = &options.tracer->add_row(stream.name() + " collectives");
  }
  if (options.kind == DeviceKind::kSim) {
    for (const auto& device : all)
      bells_.push_back(static_cast<SimDevice&>(*device).stream().bell());
    link_ = std::make_unique<SimLink>(
        options.fabric != nullptr ? options.fabric : std::make_shared<SimFabric>(), bells_,
        options.name);
    return;
  }
  auto link = std::make_unique<SharedLink>(static_cast<uint32_t>(options.devices));
  for (uint32_t d = 0; d < all.size(); ++d) {
    bells_.push_back(link->bell(d));
    all[d]->stream().use_bell(bells_.back());
  }
  link_ = std::move(link);
}

std::string HostDevices::describe() const {
  std::string text;
  for (size_t d = 0; d < all.size(); ++d) {
    text += cat(all[d]->name(), "  ", gangway::describe(options, d), "  ",
                format_bytes(static_cast<uint64_t>(all[d]->memory().budget())), "\n");
  }
  return text;
}

void HostDevices::leave() {
  for (const auto& card : cards_) card->stop_compiling();
}

void HostDevices::stop() {
  for (const std::unique_ptr<Device>& device : all) device->stream().stop();
}

}  // namespace gangway
