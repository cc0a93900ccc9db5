// ReservedBytes: how much of each device of one host is reserved.
//
// Adjacent devices with equal reservations are one piece, so that to reserve and release on a whole
// host does not take longer for more devices.
//
// Threads: a value.
// Errors: devices that the host does not have are a bug of ours: add() throws kBug, reads throw
// std::out_of_range.
// Cost: O(pieces): one where all devices are alike, and at most one for each device.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace gangway {

class ReservedBytes {
 public:
  explicit ReservedBytes(uint32_t devices = 1) : pieces_{{devices, 0}} {}

  int64_t operator[](uint32_t device) const;
  int64_t max() const;
  size_t pieces() const { return pieces_.size(); }

  // Adds `bytes` (negative: less) to each of the devices first .. end - 1.
  void add(uint32_t first, uint32_t end, int64_t bytes);
  // The first of these devices on which more than `limit` is reserved.
  std::optional<uint32_t> first_above(uint32_t first, uint32_t end, int64_t limit) const;
  // Reserved bytes on these devices, once for each piece.
  std::vector<int64_t> of_pieces(uint32_t first, uint32_t end) const;

 private:
  struct Piece {
    uint32_t end = 0;  // The piece begins where the one before ends.
    int64_t bytes = 0;
  };
  size_t piece_of(uint32_t device) const;
  size_t cut(uint32_t device);

  std::vector<Piece> pieces_;
};

}  // namespace gangway
