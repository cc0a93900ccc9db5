#include "executor/devices/cuda/module/nvrtc.h"

#include <nvrtc.h>

#include <filesystem>
#include <iterator>
#include <optional>

#include "executor/devices/cuda/module/kernel_headers.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"

namespace gangway::cuda {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBinaryBytesMax = uint64_t{1} << 30;

std::string key_of(const ModuleSource& source, const std::string& architecture) {
  Hasher hasher;
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  hasher.add(static_cast<uint64_t>(major));
  hasher.add(static_cast<uint64_t>(minor));
  hasher.add(architecture);
  hasher.add(source.text);
  for (const KernelHeader& header : kernel_headers()) hasher.add(header.text);
  return to_string(hasher.finish());
}

// None: it is not there, or can't be read, as on a disk that fails; then it is compiled again.
std::optional<std::vector<char>> kept_at(const fs::path& path) {
  try {
    const std::string binary = read_whole(path, kBinaryBytesMax);
    if (!binary.empty()) return std::vector<char>(binary.begin(), binary.end());
  } catch (const Error&) {
  }
  return std::nullopt;
}

// Other threads, processes and machines may write the same binary. Nothing is kept where the folder
// can't be written.
void keep(const fs::path& path, const std::vector<char>& binary) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  try {
    replace_whole(path, {binary.data(), binary.size()});
  } catch (const Error&) {
  }
}

struct Program {
  ~Program() {
    if (handle != nullptr) nvrtcDestroyProgram(&handle);
  }
  nvrtcProgram handle = nullptr;
};

Result<std::vector<char>> compile(const ModuleSource& source, const std::string& architecture) {
  std::vector<const char*> texts, names;
  for (const KernelHeader& header : kernel_headers()) {
    texts.push_back(header.text);
    names.push_back(header.name);
  }
  Program program;
  nvrtcResult result =
      nvrtcCreateProgram(&program.handle, source.text.c_str(), source.name.c_str(),
                         static_cast<int>(names.size()), texts.data(), names.data());
  if (result != NVRTC_SUCCESS)
    return Error(ErrorKind::kBug, cat("nvrtc: ", nvrtcGetErrorString(result)));
  const std::string target = "--gpu-architecture=" + architecture;
  const char* options[] = {target.c_str(), "--std=c++20", "--extra-device-vectorization"};
  result = nvrtcCompileProgram(program.handle, std::size(options), options);
  if (result != NVRTC_SUCCESS) {
    size_t size = 0;
    nvrtcGetProgramLogSize(program.handle, &size);
    std::string log(size, ' ');
    nvrtcGetProgramLog(program.handle, log.data());
    return Error(ErrorKind::kInvalid, cat("module: ", source.name, " does not compile: ", log));
  }
  size_t size = 0;
  nvrtcGetCUBINSize(program.handle, &size);
  std::vector<char> binary(size);
  nvrtcGetCUBIN(program.handle, binary.data());
  return binary;
}

}  // namespace

std::string architecture_name(uint32_t architecture) {
  return cat("sm_", architecture, architecture == 90 ? "a" : "");
}

Result<std::vector<char>> compile_cubin(const ModuleSource& source, uint32_t architecture,
                                        const std::string& folder) {
  const std::string name = architecture_name(architecture);
  if (folder.empty()) return compile(source, name);
  const fs::path path = fs::path(folder) / (key_of(source, name) + ".cubin");
  if (auto kept = kept_at(path)) return *std::move(kept);
  Result<std::vector<char>> made = compile(source, name);
  if (made.ok()) keep(path, made.value());
  return made;
}

}  // namespace gangway::cuda
