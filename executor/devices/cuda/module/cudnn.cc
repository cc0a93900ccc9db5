#include "executor/devices/cuda/module/cudnn.h"

#include <dlfcn.h>

#include <array>

#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

constexpr const char* kLibrary = "libcudnn.so.9";
// In earlier versions attention has faults, or reads -inf in a mask as NaN.
constexpr size_t kVersionMin = 91100;

std::string text_of(size_t version) {
  return cat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

Error lacks(const std::string& why) {
  return {ErrorKind::kUnimplemented, cat("cuda: fused attention needs ", kLibrary, ": ", why)};
}

}  // namespace

Status Cudnn::status_of(cudnnStatus_t code, std::string_view label) const {
  if (code == CUDNN_STATUS_SUCCESS) return {};
  std::array<char, 512> why = {};
  last_error(why.data(), why.size() - 1);
  const StatusKind kind = code >= CUDNN_STATUS_NOT_SUPPORTED && code < CUDNN_STATUS_INTERNAL_ERROR
                              ? StatusKind::kUnsupported
                          : code >= CUDNN_STATUS_EXECUTION_FAILED ? StatusKind::kLaunch
                                                                  : StatusKind::kInvalid;
  return {kind, false, cat(label, ": cudnn: ", name_of(code), ": ", why.data())};
}

Result<Cudnn> load_cudnn() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return lacks(dlerror());
  Cudnn found;
  const char* missing = nullptr;
  const auto look_up = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) missing = name;
  };
  look_up(found.version, "cudnnGetVersion");
  look_up(found.name_of, "cudnnGetErrorString");
  look_up(found.last_error, "cudnnGetLastErrorString");
  look_up(found.create_handle, "cudnnCreate");
  look_up(found.destroy_handle, "cudnnDestroy");
  look_up(found.set_stream, "cudnnSetStream");
  look_up(found.create, "cudnnBackendCreateDescriptor");
  look_up(found.destroy, "cudnnBackendDestroyDescriptor");
  look_up(found.set, "cudnnBackendSetAttribute");
  look_up(found.get, "cudnnBackendGetAttribute");
  look_up(found.finalize, "cudnnBackendFinalize");
  look_up(found.execute, "cudnnBackendExecute");
  if (missing != nullptr) return lacks(cat("it has no ", missing));
  if (found.version() < kVersionMin)
    return lacks(
        cat("expected ", text_of(kVersionMin), " or later, got ", text_of(found.version())));
  return found;
}

}  // namespace gangway::cuda
