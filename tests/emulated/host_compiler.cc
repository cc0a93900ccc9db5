#include "tests/emulated/host_compiler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "runtime/base/hash.h"
#include "tests/support/places.h"

namespace gangway::emulated {
namespace {

namespace fs = std::filesystem;

fs::path cache() { return fs::path(tests::build_folder()) / "tests/emulated/modules"; }

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string key_of(const std::string& text) {
  Hasher hasher;
  hasher.add(text);
  std::set<fs::path> headers;
  for (const auto& entry :
       fs::directory_iterator(fs::path(tests::source_folder()) / "executor/devices/cuda/kernels"))
    if (entry.path().extension() == ".h") headers.insert(entry.path());
  for (const fs::path& header : headers) hasher.add(read(header));
  return to_string(hasher.finish());
}

// Runs the compiler that built this program. If it fails, the error has its output.
Result<void> compile(const std::string& more, const fs::path& log) {
  const std::string command =
      cat(tests::cmake_variable("CMAKE_CXX_COMPILER"), " -std=c++20 -O1 -fPIC -I",
          tests::source_folder(), " ", more, " > ", log.string(), " 2>&1");
  const bool ok = std::system(command.c_str()) == 0;
  const std::string said = read(log);
  fs::remove(log);
  if (!ok) return Error(ErrorKind::kInvalid, "module: does not compile: " + said);
  return {};
}

// A name of this thread's own: several threads or processes may write the same file, so each writes
// one of its own and renames it.
fs::path own(const fs::path& file, const char* extension) {
  return cat(file.string(), ".", gettid(), extension);
}

// A precompiled header, since reading it takes most of the time of a small module.
fs::path prepared_header() {
  const std::string text = "#include \"executor/devices/cuda/kernels/on_host.h\"\n#include <bit>\n";
  const fs::path header = cache() / (key_of(text) + ".h"), compiled = header.string() + ".gch";
  if (fs::exists(compiled)) return header;
  const fs::path source = own(header, ".new"), built = own(header, ".gch");
  std::ofstream(source) << text;
  fs::rename(source, header);
  const Result<void> result =
      compile(cat("-x c++-header ", header.string(), " -o ", built.string()), own(header, ".log"));
  if (!result.ok()) throw result.error();
  fs::rename(built, compiled);
  return header;
}

Result<void> build(const std::string& text, const fs::path& library) {
  const fs::path source = own(library, ".cc"), built = own(library, ".so");
  std::ofstream(source) << text;
  Result<void> result = compile(cat("-shared -include ", prepared_header().string(), " -o ",
                                    built.string(), " ", source.string()),
                                own(library, ".log"));
  if (result.ok()) fs::rename(built, library);
  fs::remove(source);
  return result;
}

}  // namespace

Result<LoadedSource> compile_for_host(const cuda::ModuleSource& source) {
  fs::create_directories(cache());
  const fs::path library = cache() / (key_of(source.text) + ".so");
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
