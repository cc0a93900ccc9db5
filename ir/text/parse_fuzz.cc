// Any text is a graph or an error; a graph prints to a text that parses to the same graph.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ir/text/text.h"
#include "runtime/base/error.h"

namespace {

template <class Parse>
void check(std::string_view text, Parse parse) {
  try {
    auto graph = parse(text);
    if (!same_graph(parse(print(graph)), graph)) std::abort();
  } catch (const gangway::Error& error) {
    if (error.kind() == gangway::ErrorKind::kBug) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text, [](std::string_view in) { return gangway::parse_function(in); });
  check(text, [](std::string_view in) { return gangway::parse_program(in); });
  return 0;
}
