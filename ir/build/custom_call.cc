#include "ir/build/custom_call.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ir/build/builder.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/base/paths.h"

namespace gangway {

std::string read_library(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  GW_REQUIRE(in.good() && !bytes.empty(), "kernel library ", path,
             ": it can't be read: ", errno != 0 ? std::strerror(errno) : "it is empty");
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
