#include "ir/plan/islands.h"

#include <algorithm>

#include "ir/plan/plan.h"
#include "runtime/base/error.h"
#include "runtime/base/plain_name.h"
#include "runtime/base/quote.h"

namespace gangway {

const char* to_string(LinkClass link) {
  switch (link) {
    case LinkClass::kHost: return "host";
    case LinkClass::kIsland: return "island";
    case LinkClass::kBetweenIslands: return "between";
  }
  return "?";
}

void require_island_name(const std::string& name, const std::string& who) {
  GW_REQUIRE(is_plain_name(name), who, ": island ",
             internal::quote(name.substr(0, kPlainNameBytesMax)), ": expected 1 to ",
             kPlainNameBytesMax, " letters, digits, '-', '_' or '.'");
}

LinkClass link_class(const Plan& plan, uint32_t a, uint32_t b) {
  if (a == b) return LinkClass::kHost;
  const bool together = plan.islands.empty() || plan.islands[a] == plan.islands[b];
  return together ? LinkClass::kIsland : LinkClass::kBetweenIslands;
}

bool spans_islands(const Plan& plan) {
  return std::any_of(plan.islands.begin(), plan.islands.end(),
                     [&](const std::string& island) { return island != plan.islands[0]; });
}

}  // namespace gangway
