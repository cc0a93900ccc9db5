#include "ir/build/custom_call.h"

#include "ir/build/builder.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/base/paths.h"

namespace gangway {

namespace {

constexpr uint64_t kLibraryBytesMax = uint64_t{1} << 30;

}  // namespace

std::string read_library(const std::string& path) {
  std::string bytes = read_whole(path, kLibraryBytesMax);
  GW_REQUIRE(!bytes.empty(), "kernel library ", path, ": it is empty");
  return bytes;
}

UserKernel user_kernel(const std::string& path, const std::string& symbol) {
  const std::string whole = absolute_path(path).lexically_normal();
  return {.path = whole, .library = content_hash(read_library(whole)), .symbol = symbol};
}

Value custom_call(const UserKernel& kernel, const std::vector<Value>& inputs, const Type& result,
                  Loc loc) {
  GW_REQUIRE(!inputs.empty(), "custom_call: \"", kernel.symbol, "\" needs at least one input");
  return inputs[0].builder().emit1(Op::custom_call, inputs,
                                   {{"path", kernel.path},
                                    {"library", kernel.library},
                                    {"symbol", kernel.symbol},
                                    {"dims", result.dims},
                                    {"dtype", result.dtype}},
                                   loc);
}

}  // namespace gangway
