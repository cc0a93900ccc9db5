// Modules and kernel launches of the emulated driver.
#include "tests/emulated/emulated_driver.h"
#include "tests/emulated/host_compiler.h"

namespace gangway::emulated {

using namespace cuda;

struct EmulatedDriver::LoadedModule {
  LoadedSource source;
};

namespace {

constexpr uint32_t kBlockThreadsMax = 1024, kBlockZMax = 64;
constexpr uint32_t kGridXMax = INT32_MAX, kGridYMax = 65535;  // The limit of y holds for z too.
constexpr uint32_t kSharedBytesMax = 227 << 10;

// Why a card would refuse the launch; empty: it would not.
std::string refused(const Launch& launch) {
  const auto shape = [](const Grid& of) { return cat(of.x, " x ", of.y, " x ", of.z); };
  const Grid &grid = launch.grid, &block = launch.block;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kBlockThreadsMax || block.z > kBlockZMax)
    return cat("launches blocks of ", shape(block), " threads");
  if (uint64_t{grid.x} * grid.y * grid.z == 0 || grid.x > kGridXMax || grid.y > kGridYMax ||
      grid.z > kGridYMax)
    return cat("launches a grid of ", shape(grid), " blocks");
  if (launch.shared_bytes > kSharedBytesMax)
    return cat("asks for ", launch.shared_bytes, " bytes of shared memory for a block");
  return {};
}

}  // namespace

Result<ModuleHandle> EmulatedDriver::compile(const ModuleSource& source) {
  if (core_.options.before_compile) core_.options.before_compile();
  Result<LoadedSource> loaded = compile_for_host(source);
  if (!loaded.ok()) return loaded.error();
  const auto lock = enter("compile");
  modules_.push_back(std::make_shared<LoadedModule>(LoadedModule{loaded.take()}));
  return ModuleHandle{modules_.size()};
}

void EmulatedDriver::destroy(ModuleHandle) {}

Result<KernelHandle> EmulatedDriver::kernel(ModuleHandle module, std::string_view name) {
  const auto lock = enter("kernel");
  const auto found = [&](const HostKernel& kernel) { return name == kernel.name; };
  const auto handle = [](const HostKernel* kernel) {
    return KernelHandle{reinterpret_cast<uint64_t>(kernel)};
  };
  if (module) {
    for (const HostKernel& kernel : modules_.at(module.bits - 1)->source.kernels())
      if (found(kernel)) return handle(&kernel);
  } else {
    for (const HostKernel* kernel : core_.kernels)
      if (found(*kernel)) return handle(kernel);
  }
  return Error(ErrorKind::kInvalid, cat("kernel: there is no \"", name, "\""));
}

Status EmulatedDriver::launch(At at, const Launch& launch) {
  const auto lock = enter(at.label);
  const auto* kernel = reinterpret_cast<const HostKernel*>(launch.kernel.bits);
  if (kernel == nullptr) return misuse(at.label, "launches no kernel");
  if (std::string why = refused(launch); !why.empty()) return misuse(at.label, std::move(why));
  if (launch.arguments.size() != kernel->arguments)
    return misuse(at.label, cat("gives ", launch.arguments.size(), " arguments to ", kernel->name,
                                ": expected ", kernel->arguments));
  auto values = std::make_shared<std::vector<std::vector<std::byte>>>();
  for (uint32_t i = 0; i < kernel->arguments; ++i) {
    const auto* from = static_cast<const std::byte*>(launch.arguments[i]);
    values->emplace_back(from, from + kernel->argument_bytes[i]);
  }
  const std::vector<Access> accesses(launch.accesses.begin(), launch.accesses.end());
  const auto run = [this, kernel, values, accesses, grid = launch.grid, block = launch.block,
                    shared_bytes = launch.shared_bytes, label = std::string(at.label)] {
    std::vector<const void*> arguments;
    for (const auto& value : *values) arguments.push_back(value.data());
    std::vector<DeclaredRange> ranges;
    for (const Access& access : accesses) {
      auto* begin = static_cast<std::byte*>(const_cast<void*>(access.data));
      Allocation* in = core_.memory.find(begin);
      if (in != nullptr && access.bytes > 0)
        ranges.push_back({begin, begin + access.bytes, access.kind, in});
    }
    core_.blocks.run({kernel, arguments.data(), grid, block, shared_bytes, ranges, label});
    return Status{};
  };
  return enqueue(at, {{}, accesses, [run] { return Operation{.run = run}; }});
}

}  // namespace gangway::emulated
