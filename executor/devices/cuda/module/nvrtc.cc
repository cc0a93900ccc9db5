#include "executor/devices/cuda/module/nvrtc.h"

#include <nvrtc.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "executor/devices/cuda/module/kernel_headers.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"

namespace gangway::cuda {
namespace {

namespace fs = std::filesystem;

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

std::vector<char> read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Writes the binary whole or not at all, since another thread or process may write the same one.
// Nothing is kept where the folder can't be written.
void keep(const fs::path& path, const std::vector<char>& binary) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  // Machines that share the folder may number their threads alike.
  std::string made = path.string() + ".XXXXXX";
  const int fd = mkstemp(made.data());
  if (fd < 0) return;
  ::close(fd);
  std::ofstream out(made, std::ios::binary);
  out.write(binary.data(), static_cast<std::streamsize>(binary.size()));
  out.close();
  fs::permissions(made, fs::perms(0644), ignored);  // Other users may share the folder, too.
  if (out) fs::rename(made, path, ignored);
  fs::remove(made, ignored);
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
  std::error_code ignored;
  if (fs::exists(path, ignored)) return read(path);
  Result<std::vector<char>> made = compile(source, name);
  if (made.ok()) keep(path, made.value());
  return made;
}

}  // namespace gangway::cuda
