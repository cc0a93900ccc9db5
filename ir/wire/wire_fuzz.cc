// Any bytes are a graph or an error; a graph travels to bytes that give the same graph.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <type_traits>

#include "ir/wire/wire.h"
#include "runtime/base/error.h"

namespace {

template <class Read>
void check(std::span<const std::byte> bytes, Read read) {
  try {
    auto graph = read(bytes);
    auto again = read(gangway::to_wire(graph));
    if (!same_graph(again, graph)) std::abort();
    if constexpr (std::is_same_v<decltype(graph), gangway::Function>)
      if (gangway::content_hash(again) != gangway::content_hash(graph)) std::abort();
  } catch (const gangway::Error& error) {
    if (error.kind() == gangway::ErrorKind::kBug) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  check(bytes, [](std::span<const std::byte> in) { return gangway::function_from_wire(in); });
  check(bytes, [](std::span<const std::byte> in) { return gangway::program_from_wire(in); });
  return 0;
}
