#include "controller/hosts/reserved_bytes.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace gangway {

size_t ReservedBytes::piece_of(uint32_t device) const {
  const auto at = std::ranges::upper_bound(pieces_, device, {}, &Piece::end);
  return static_cast<size_t>(at - pieces_.begin());
}

int64_t ReservedBytes::operator[](uint32_t device) const {
  return pieces_.at(piece_of(device)).bytes;
}

int64_t ReservedBytes::max() const {
  return std::ranges::max_element(pieces_, {}, &Piece::bytes)->bytes;
}

// Cuts so that a piece begins with this device, and returns its index; pieces_.size() for the end.
size_t ReservedBytes::cut(uint32_t device) {
  const size_t at = piece_of(device);
  const uint32_t begin = at == 0 ? 0 : pieces_[at - 1].end;
  if (at == pieces_.size() || begin == device) return at;
  pieces_.insert(pieces_.begin() + static_cast<std::ptrdiff_t>(at), {device, pieces_[at].bytes});
  return at + 1;
}

void ReservedBytes::add(uint32_t first, uint32_t end, int64_t bytes) {
  GW_ASSERT(first <= end && end <= pieces_.back().end);
  const size_t from = cut(first), to = cut(end);
  for (size_t i = from; i < to; ++i) pieces_.at(i).bytes += bytes;
  // Only the two outer ends can have become like their neighbours.
  const auto join = [this](size_t at) {
    if (at == 0 || at >= pieces_.size() || pieces_[at - 1].bytes != pieces_[at].bytes) return;
    pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(at) - 1);
  };
  join(to);
  join(from);
}

std::optional<uint32_t> ReservedBytes::first_above(uint32_t first, uint32_t end,
                                                   int64_t limit) const {
  uint32_t begin = first;
  for (size_t i = piece_of(first); begin < end; ++i) {
    if (pieces_.at(i).bytes > limit) return begin;
    begin = pieces_[i].end;
  }
  return std::nullopt;
}

std::vector<int64_t> ReservedBytes::of_pieces(uint32_t first, uint32_t end) const {
  std::vector<int64_t> bytes;
  uint32_t begin = first;
  for (size_t i = piece_of(first); begin < end; ++i) {
    bytes.push_back(pieces_.at(i).bytes);
    begin = pieces_[i].end;
  }
  return bytes;
}

}  // namespace gangway
