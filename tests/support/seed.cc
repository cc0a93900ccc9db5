#include "tests/support/seed.h"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/error.h"

namespace gangway::tests {

uint64_t test_seed() {
  constexpr uint64_t kDefault = 20'260'101;
  const std::optional<std::string> text = environment_value("GW_TEST_SEED");
  char* end = nullptr;
  const uint64_t seed = text ? std::strtoull(text->c_str(), &end, 10) : kDefault;
  GW_REQUIRE(!text || (end != text->c_str() && *end == 0),
             "GW_TEST_SEED: is not a number: expected digits, got \"", *text, "\"");
  std::fprintf(stderr, "seed %llu (choose it with GW_TEST_SEED)\n",
               static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace gangway::tests
