#include "tests/support/seed.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/base/error.h"

namespace gangway::tests {

uint64_t test_seed() {
  constexpr uint64_t kDefault = 20'260'101;
  const char* text = std::getenv("GW_TEST_SEED");
  char* end = nullptr;
  const uint64_t seed = text ? std::strtoull(text, &end, 10) : kDefault;
  GW_REQUIRE(!text || (end != text && *end == 0),
             "GW_TEST_SEED: is not a number: expected digits, got \"", text ? text : "", "\"");
  std::fprintf(stderr, "seed %llu (choose it with GW_TEST_SEED)\n",
               static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace gangway::tests
