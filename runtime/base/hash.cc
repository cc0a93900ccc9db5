#include "runtime/base/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gangway {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr std::array<uint64_t, 8> kInitial = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

constexpr uint8_t kOrder[10][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
                                    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
                                    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
                                    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
                                    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
                                    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
                                    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
                                    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
                                    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

constexpr uint64_t kDigestBytes = 16;

void mix(uint64_t& a, uint64_t& b, uint64_t& c, uint64_t& d, uint64_t x, uint64_t y) {
  a += b + x;
  d = std::rotr(d ^ a, 32);
  c += d;
  b = std::rotr(b ^ c, 24);
  a += b + y;
  d = std::rotr(d ^ a, 16);
  c += d;
  b = std::rotr(b ^ c, 63);
}

}  // namespace

std::string content_hash(std::string_view bytes) {
  Hasher hasher;
  hasher.add_unframed(bytes.data(), bytes.size());
  return to_string(hasher.finish());
}

std::string to_string(const Hash128& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 32; ++i) {
    const uint64_t word = i < 16 ? hash.high : hash.low;
    text[static_cast<size_t>(i)] = kDigits[(word >> (60 - 4 * (i % 16))) & 15];
  }
  return text;
}

Hasher::Hasher() : state_(kInitial) { state_[0] ^= 0x01010000 ^ kDigestBytes; }

void Hasher::add_unframed(const void* data, size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    if (filled_ == block_.size()) compress(false);  // Only when more follows: the last is special.
    const size_t n = std::min(bytes, block_.size() - filled_);
    std::memcpy(block_.data() + filled_, from, n);
    filled_ += n;
    from += n;
    bytes -= n;
  }
}

void Hasher::add(const void* bytes, size_t size) {
  add(static_cast<uint64_t>(size));
  add_unframed(bytes, size);
}

void Hasher::add(uint64_t word) { add_unframed(&word, sizeof word); }

Hash128 Hasher::finish() const {
  Hasher last = *this;
  std::fill(last.block_.begin() + static_cast<std::ptrdiff_t>(last.filled_), last.block_.end(), 0);
  last.compress(true);
  return {__builtin_bswap64(last.state_[0]), __builtin_bswap64(last.state_[1])};
}

void Hasher::compress(bool last) {
  total_ += filled_;
  filled_ = 0;
  uint64_t m[16], v[16];
  std::memcpy(m, block_.data(), sizeof m);
  std::copy(state_.begin(), state_.end(), v);
  std::copy(kInitial.begin(), kInitial.end(), v + 8);
  v[12] ^= total_;
  if (last) v[14] = ~v[14];
  for (int round = 0; round < 12; ++round) {
    const uint8_t* s = kOrder[round % 10];
    for (int i = 0; i < 4; ++i)
      mix(v[i], v[i + 4], v[i + 8], v[i + 12], m[s[2 * i]], m[s[2 * i + 1]]);
    for (int i = 0; i < 4; ++i)
      mix(v[i], v[4 + (i + 1) % 4], v[8 + (i + 2) % 4], v[12 + (i + 3) % 4], m[s[8 + 2 * i]],
          m[s[9 + 2 * i]]);
  }
  for (size_t i = 0; i < 8; ++i) state_[i] ^= v[i] ^ v[i + 8];
}

}  // namespace gangway
