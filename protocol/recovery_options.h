// Options with which a program can go on when a host is lost, or its controller is started again:
// checkpoints of its states, which the cluster keeps, and the axes along which its meshes may
// shrink.
//
// Threads: a value; pure functions.
// Errors: require_recovery() throws kInvalid beyond the bounds below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/text_limits.h"
#include "runtime/base/error.h"
#include "runtime/base/quote.h"

namespace gangway {

struct RecoveryOptions {
  uint64_t every = 0;  // Versions between two checkpoints; at least 1.
  // Number of the newest checkpoints that stay on the disk. After a step back, as many that lead to
  // the newest one stay too.
  int keep = 2;
  // Number of versions that the states had seen before the slice's first, as in a training that was
  // resumed: checkpoints are numbered on from there.
  uint64_t first = 0;
  // Axes of the slice's meshes that may be halved, again and again, the first ones first, when too
  // few devices are left. Empty: the program waits for as many devices as it had.
  std::vector<std::string> elastic = {};
  // Texts that the files carry beside their tensors, for whoever reads the files.
  std::map<std::string, std::string> metadata = {};

  friend bool operator==(const RecoveryOptions&, const RecoveryOptions&) = default;
};

inline constexpr uint64_t kCheckpointEveryMax = uint64_t{1} << 62;
inline constexpr int kCheckpointsKeptMax = 1000;
inline constexpr size_t kElasticAxesMax = 16;
inline constexpr size_t kMetadataMax = 32;
inline constexpr uint64_t kFirstVersionMax = uint64_t{1} << 61;

inline void require_recovery(const RecoveryOptions& options) {
  GW_REQUIRE(options.every >= 1 && options.every <= kCheckpointEveryMax,
             "keep_checkpoints: expected one every 1 or more versions, got ", options.every,
             ": at most every ", kCheckpointEveryMax);
  GW_REQUIRE(options.keep >= 1 && options.keep <= kCheckpointsKeptMax,
             "keep_checkpoints: expected to keep 1 to ", kCheckpointsKeptMax, " checkpoints, got ",
             options.keep);
  GW_REQUIRE(options.first <= kFirstVersionMax,
             "keep_checkpoints: expected the first version to be "
             "number ",
             kFirstVersionMax, " at most, got ", options.first);
  GW_REQUIRE(options.elastic.size() <= kElasticAxesMax, "keep_checkpoints: expected at most ",
             kElasticAxesMax, " elastic axes, got ", options.elastic.size());
  GW_REQUIRE(options.metadata.size() <= kMetadataMax, "keep_checkpoints: expected at most ",
             kMetadataMax, " texts of metadata, got ", options.metadata.size());
  for (const std::string& axis : options.elastic)
    GW_REQUIRE(axis.size() <= kQuotedBytesMax && internal::is_utf8(axis),
               "keep_checkpoints: an elastic axis of ", axis.size(), " bytes: expected at most ",
               kQuotedBytesMax, ", of UTF-8");
  for (const auto& [key, text] : options.metadata)
    GW_REQUIRE(key.size() <= kQuotedBytesMax && text.size() <= kTextBytesMax &&
                   internal::is_utf8(key) && internal::is_utf8(text),
               "keep_checkpoints: metadata \"", std::string_view(key).substr(0, kQuotedBytesMax),
               "\": expected a key of at most ", kQuotedBytesMax, " bytes and a text of at most ",
               kTextBytesMax, ", both of UTF-8");
}

}  // namespace gangway
