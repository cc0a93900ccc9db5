#include "tests/emulated/host_compiler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "runtime/base/hash.h"

namespace gangway::emulated {
namespace {

namespace fs = std::filesystem;

// GW_HOST_COMPILER, GW_SOURCE_ROOT and GW_MODULE_CACHE come from CMakeLists.txt.
const fs::path kCache = GW_MODULE_CACHE;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string key_of(const std::string& text) {
  Hasher hasher;
  hasher.add(text);
  std::set<fs::path> headers;
  for (const auto& entry :
       fs::directory_iterator(fs::path(GW_SOURCE_ROOT) / "executor/devices/cuda/kernels"))
    if (entry.path().extension() == ".h") headers.insert(entry.path());
  for (const fs::path& header : headers) hasher.add(read(header));
  return to_string(hasher.finish());
}

Result<void> build(const std::string& text, const fs::path& library) {
  // Another thread, or process, may be making the same.
  const fs::path stem = library.string() + "." + std::to_string(gettid());
  const fs::path source = stem.string() + ".cc", log = stem.string() + ".log";
  const fs::path built = stem.string() + ".so";
  std::ofstream(source) << text;
  const std::string command =
      cat(GW_HOST_COMPILER, " -std=c++20 -O1 -fPIC -shared -I", GW_SOURCE_ROOT, " -o ",
          built.string(), " ", source.string(), " > ", log.string(), " 2>&1");
  const bool ok = std::system(command.c_str()) == 0;
  const std::string said = read(log);
  if (ok) fs::rename(built, library);
  fs::remove(source);
  fs::remove(log);
  if (!ok) return Error(ErrorKind::kInvalid, "module: does not compile: " + said);
  return {};
}

}  // namespace

Result<LoadedSource> compile_for_host(const cuda::ModuleSource& source) {
  fs::create_directories(kCache);
  const fs::path library = kCache / (key_of(source.text) + ".so");
  if (!fs::exists(library)) {
    if (Result<void> built = build(source.text, library); !built.ok()) return built.error();
  }
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Error(ErrorKind::kInvalid, cat("module: ", dlerror()));
  std::shared_ptr<void> owner(handle, [](void* open) { dlclose(open); });
  const void* table = dlsym(handle, "gangway_kernels_module");
  if (table == nullptr)
    return Error(ErrorKind::kInvalid, cat("module: ", source.name, " has no kernel table"));
  return LoadedSource(std::move(owner), *static_cast<const cuda::HostKernelTable*>(table));
}

}  // namespace gangway::emulated
