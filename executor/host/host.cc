#include "executor/host/host.h"

#include <unistd.h>

#include <algorithm>

#include "executor/devices/cpu/cpu_device.h"
#include "executor/devices/cuda/cuda_device.h"
#include "executor/devices/sim/sim_device.h"
#include "executor/devices/sim/sim_fabric.h"
#include "executor/host/host_impl.h"
#include "executor/transfers/segment_directory.h"
#include "runtime/base/units.h"
#include "runtime/observe/trace.h"

namespace gangway {
namespace {

// As many devices as options.devices share the cards evenly.
int64_t card_share(const HostOptions& options) {
  const auto cards = static_cast<int>(options.gpus.size());
  const int on_one = (options.devices + cards - 1) / cards;
  return options.gpus[0]->info().memory_free / on_one;
}

HostOptions filled_in(HostOptions options) {
  GW_REQUIRE(options.devices >= 1 && options.devices <= 4096, "host \"", options.name,
             "\": devices must be 1 to 4096, got ", options.devices);
  if (options.kind == DeviceKind::kCuda) {
    if (options.gpus.empty()) {
      throw Error(ErrorKind::kUnimplemented,
                  cat("host \"", options.name, "\": there is no driver for CUDA devices"), {},
                  "use --device cpu");
    }
    if (options.memory_bytes <= 0) options.memory_bytes = card_share(options);
  }
  if (options.memory_bytes <= 0) {
    const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    options.memory_bytes = machine / options.devices;
  }
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
                           .wait = SpinPolicy::for_threads(options.devices * options.threads + 1)});
    case DeviceKind::kSim: return std::make_unique<SimDevice>(reactor, name, options.memory_bytes);
    case DeviceKind::kCuda: break;
  }
  return std::make_unique<CudaDevice>(
      CudaDeviceOptions{.name = name,
                        .memory_bytes = options.memory_bytes,
                        .gpu = cards[static_cast<size_t>(index) % cards.size()]});
}

std::string describe(DeviceKind kind, const HostOptions& options, size_t index) {
  if (kind == DeviceKind::kCuda) return options.gpus[index % options.gpus.size()]->info().name;
  return cat(kind == DeviceKind::kSim ? "simulated" : "cpu", "  ", options.threads, " threads");
}

}  // namespace

Host::Impl::Impl(Reactor& r, HostOptions o, HostEvents& e)
    : reactor(r),
      options(filled_in(std::move(o))),
      events(e),
      compiler(options.name + "/compiler", reactor.mailbox()) {
  const auto pins = std::make_shared<cuda::Pins>();
  for (const auto& driver : options.gpus)
    cards.push_back(std::make_shared<cuda::Gpu>(driver, pins));
  SegmentBuilder builder;
  for (int d = 0; d < options.devices; ++d) builder.add(cat("bell ", d), sizeof(Doorbell));
  bells = builder.make();
  for (int d = 0; d < options.devices; ++d) {
    devices.push_back(make_device(reactor, options, cards, d));
    auto* doorbell =
        reinterpret_cast<Doorbell*>(find_area(bells, cat("bell ", d), sizeof(Doorbell)));
    devices.back()->use_bell({doorbell, nullptr});
    device_bells.push_back(options.kind == DeviceKind::kSim
                               ? static_cast<SimDevice&>(*devices.back()).bell()
                               : Bell{doorbell, nullptr});
    if (options.tracer != nullptr)
      devices.back()->trace_row = &options.tracer->add_row(devices.back()->name());
  }
  if (options.fabric != nullptr) options.fabric->add(bells.descriptor().token, device_bells);
  feeder = std::make_unique<SourceFeeder>(options.name + "/data", reactor.simulated());
}

Host::Impl::~Impl() {
  *alive = false;
  if (options.fabric != nullptr) options.fabric->remove(bells.descriptor().token);
  for (const auto& [id, plan] : plans) {
    if (plan->stage == PlanStage::kCompiling) drop_install(*plan);
  }
  for (const auto& card : cards) card->stop_compiling();
  compiler.stop();
  feeder.reset();
  for (const auto& [id, made] : plans) sound_alarm(*made);
  for (const auto& made : closing) sound_alarm(*made);
  // Before the plans go, whose work their threads run; the plans' buffers need their memory.
  for (const std::unique_ptr<Device>& device : devices) device->stop();
}

Host::Host(Reactor& reactor, HostOptions options, HostEvents& events)
    : impl_(std::make_unique<Impl>(reactor, std::move(options), events)) {}
Host::~Host() = default;

const HostOptions& Host::options() const { return impl_->options; }

std::string Host::describe_devices() const {
  std::string text;
  for (size_t d = 0; d < impl_->devices.size(); ++d) {
    const Device& device = *impl_->devices[d];
    text += cat(device.name(), "  ", describe(impl_->options.kind, impl_->options, d), "  ",
                format_bytes(static_cast<uint64_t>(device.memory().budget())), "\n");
  }
  return text;
}

Future<Installed> Host::install(PlanId id, std::shared_ptr<const Plan> plan, uint32_t self,
                                StateScope scope) {
  return impl_->install(id, std::move(plan), self, scope);
}
void Host::link(PlanId id, const std::vector<SegmentOffer>& offers) { impl_->link(id, offers); }
void Host::commit_install(PlanId id) { impl_->commit_install(id); }
void Host::uninstall(PlanId id) { impl_->uninstall(id); }
void Host::start(const RunFrame& request) { impl_->start(request); }
void Host::cancel(RunId run, ErrorKind kind, const std::string& why) {
  impl_->cancel(run, kind, why);
}
void Host::put(uint64_t request, ArrayId array, PlanId like, uint32_t input,
               const ClientBytes& from) {
  impl_->put(request, array, like, input, from);
}
void Host::get(uint64_t request, ArrayId array, const ClientBytes& to) {
  impl_->get(request, array, to);
}
void Host::free(std::span<const ArrayId> arrays) { impl_->free(arrays); }
void Host::get_state(uint64_t request, StateScope scope, const std::string& name,
                     const ClientBytes& to) {
  impl_->get_state(request, scope, name, to);
}
void Host::put_state(uint64_t request, StateScope scope, const std::string& name,
                     const ClientBytes& from) {
  impl_->put_state(request, scope, name, from);
}
void Host::free_scope(StateScope scope) { impl_->free_scope(scope); }
int64_t Host::bytes_in_use(uint32_t device) const {
  return impl_->devices.at(device)->memory().in_use();
}
int64_t Host::bytes_peak(uint32_t device) const {
  return impl_->devices.at(device)->memory().peak();
}

}  // namespace gangway
