// A program outside Gangway's tree: it sees what is installed, and nothing else.
#include <cstdio>

#include "gangway.h"

namespace gw = gangway;

int main() try {
  const gw::Type tokens = gw::i32({64, 512});
  const auto parsed = gw::parse_type(gw::to_string(tokens));
  GW_REQUIRE(parsed == tokens, "type: does not parse back: got ", gw::to_string(tokens));
  std::printf("%s is %lld bytes\n", gw::to_string(tokens).c_str(),
              static_cast<long long>(tokens.bytes()));
  std::puts("the example is done");
} catch (const gw::Error& error) {
  return gw::report(error);
}
