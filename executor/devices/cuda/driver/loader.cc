#include "executor/devices/cuda/driver/loader.h"

#include <dlfcn.h>

#include <filesystem>

#include "runtime/base/environment.h"
#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

namespace fs = std::filesystem;

std::string module_path() {
  if (const auto given = environment_value("GANGWAY_CUDA_MODULE")) return *given;
  std::error_code ignored;
  fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (int up = 0; up <= 3; ++up, folder = folder.parent_path()) {
    const fs::path path = folder / "lib" / "gangway" / "libgangway_cuda.so";
    if (fs::exists(path, ignored)) return path;
  }
  return {};
}

struct Loaded {
  const ModuleTable* table = nullptr;
  std::string why_not;
};

Loaded load_module() {
  const std::string path = module_path();
  if (path.empty()) return {nullptr, "this build has no CUDA module"};
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr)
    return {nullptr, "no NVIDIA driver on this machine: libcuda.so.1 is not there"};
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {nullptr, cat("the CUDA module does not load: ", dlerror())};
  const auto* table = static_cast<const ModuleTable*>(dlsym(handle, kModuleSymbol));
  if (table == nullptr || table->version != kModuleVersion)
    return {nullptr, cat(path, " is of another version of Gangway")};
  return {table, {}};
}

}  // namespace

FoundGpus find_gpus() {
  const Loaded loaded = load_module();
  if (loaded.table == nullptr) return {{}, loaded.why_not};
  return loaded.table->find();
}

std::shared_ptr<Driver> open_gpu(const OpenOptions& options) {
  const FoundGpus found = find_gpus();
  if (found.gpus.empty())
    throw Error(ErrorKind::kUnavailable, cat("cuda: ", found.why_none), {}, "use --device cpu");
  if (options.index >= found.gpus.size()) {
    throw Error(ErrorKind::kUnavailable, cat("cuda: there is no GPU ", options.index,
                                             ": this machine has ", found.gpus.size()));
  }
  return load_module().table->open(options).take();
}

}  // namespace gangway::cuda
