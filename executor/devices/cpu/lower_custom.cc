// A user's kernel: its shared library is loaded when the function is compiled.
#include <dlfcn.h>

#include <memory>
#include <optional>

#include "executor/devices/cpu/kernel.h"
#include "ir/build/custom_call.h"
#include "ir/build/user_kernel.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/trusted_files.h"

namespace gangway::cpu {
namespace {

static_assert(kGangwayBool == static_cast<int>(DType::kBool) &&
              kGangwayI32 == static_cast<int>(DType::kI32) &&
              kGangwayBF16 == static_cast<int>(DType::kBF16) &&
              kGangwayF32 == static_cast<int>(DType::kF32) &&
              kGangwayF64 == static_cast<int>(DType::kF64));

[[noreturn]] void fail(const LowerCall& call, const std::string& what, std::string hint = {}) {
  throw Error(ErrorKind::kInvalid,
              cat("custom_call: library ", call.attrs().text("path"), ": ", what),
              {.node = call.function.name, .at = where(call.function, call.id)}, std::move(hint));
}

// Loads a copy of the bytes that were checked, under a new name: for a path that the loader knows,
// it would return the library that it loaded from there before.
std::shared_ptr<void> load(const LowerCall& call, const std::string& bytes) {
  const TempDir folder;
  const std::string copy = folder.path() / "library.so";
  try {
    write_durably(copy, bytes);
  } catch (const Error& error) {
    throw Error(error.kind(),
                cat("custom_call: library ", call.attrs().text("path"),
                    ": the copy to load: ", error.message()),
                {.node = call.function.name, .at = where(call.function, call.id)}, error.hint());
  }
  void* handle = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail(call, cat("it can't be loaded: ", dlerror()));
  return {handle, [](void* library) { dlclose(library); }};
}

// Loads the library by its hash: the path is that on the machine of the program's author.
std::shared_ptr<void> open_trusted(const LowerCall& call) {
  const std::string& hash = call.attrs().text("library");
  const std::optional<std::string> bytes = call.trusted->library(hash);
  if (!bytes) {
    fail(
        call,
        cat("this executor trusts no library of its content (hash ", hash,
            "): trusted folders, as they were when it was started: ", call.trusted->folders_text()),
        "whoever runs the executor can start it with --trust and a folder in which it lies");
  }
  return load(call, *bytes);
}

std::shared_ptr<void> open_library(const LowerCall& call) {
  const std::string& path = call.attrs().text("path");
  if (call.trusted != nullptr) return open_trusted(call);
  std::string bytes;
  try {
    bytes = read_library(path);
  } catch (const Error& error) {
    fail(call, error.message(), "every executor must have the file at this path");
  }
  const std::string hash = content_hash(bytes), &expected = call.attrs().text("library");
  if (hash != expected) {
    fail(call, cat("of another content: expected hash ", expected, ", got ", hash),
         "it was built anew: build the program anew as well");
  }
  return load(call, bytes);
}

GangwayTensor tensor_of(const Type& type, const void* data) {
  return {.data = const_cast<void*>(data),
          .dims = type.dims.data(),
          .rank = static_cast<int64_t>(type.dims.size()),
          .elements = type.elements(),
          .dtype = static_cast<int64_t>(type.dtype)};
}

}  // namespace

Lowered lower_custom(const LowerCall& call) {
  std::shared_ptr<void> library = open_library(call);
  const std::string& symbol = call.attrs().text("symbol");
  const auto kernel = reinterpret_cast<GangwayKernel>(dlsym(library.get(), symbol.c_str()));
  if (kernel == nullptr) {
    fail(call, cat("it has no function \"", symbol, "\""), "is it extern \"C\", and exported?");
  }
  std::vector<Type> inputs;
  inputs.reserve(call.inputs());
  for (size_t i = 0; i < call.inputs(); ++i) inputs.push_back(call.in(i));
  return {[library = std::move(library), kernel, symbol, inputs = std::move(inputs),
           result = call.out()](const KernelArgs& args) {
    std::vector<GangwayTensor> tensors;
    tensors.reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      tensors.push_back(tensor_of(inputs[i], args.in(i)));
    }
    const GangwayKernelCall kernel_call{.version = 1,
                                        .input_count = static_cast<int64_t>(tensors.size()),
                                        .inputs = tensors.data(),
                                        .result = tensor_of(result, args.out(0))};
    // The device's thread turns it into the run's error.
    if (const int status = kernel(&kernel_call); status != 0) {
      throw Error(ErrorKind::kInvalid, cat("custom_call: ", symbol, " returned ", status));
    }
  }};
}

}  // namespace gangway::cpu
