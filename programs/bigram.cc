#include "programs/bigram.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/error.h"

namespace gangway::programs {

double bigram_nats_per_byte(std::string_view train, std::string_view heldout) {
  constexpr size_t kBytes = 256;
  GW_REQUIRE(heldout.size() >= 2,
             "bigram: held-out text too short: expected at least 2 bytes, got ", heldout.size());
  auto pair_at = [](std::string_view text, size_t i) {
    return static_cast<unsigned char>(text[i]) * kBytes + static_cast<unsigned char>(text[i + 1]);
  };
  std::vector<uint64_t> pairs(kBytes * kBytes), firsts(kBytes);
  for (size_t i = 0; i + 1 < train.size(); ++i) {
    size_t pair = pair_at(train, i);
    ++pairs[pair];
    ++firsts[pair / kBytes];
  }
  double nats = 0;
  for (size_t i = 0; i + 1 < heldout.size(); ++i) {
    size_t pair = pair_at(heldout, i);
    nats += std::log(static_cast<double>(firsts[pair / kBytes] + kBytes) /
                     static_cast<double>(pairs[pair] + 1));
  }
  return nats / static_cast<double>(heldout.size() - 1);
}

}  // namespace gangway::programs
