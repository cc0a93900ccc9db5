#include "runtime/base/hash.h"

#include <cstring>

namespace gangway {
namespace {

__extension__ typedef unsigned __int128 Wide;

uint64_t fold(uint64_t a, uint64_t b) {
  Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

constexpr uint64_t kOdd1 = 0xa0761d6478bd642f;
constexpr uint64_t kOdd2 = 0xe7037ed1a0b428db;

}  // namespace

std::string to_string(const Hash128& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 32; ++i) {
    uint64_t word = i < 16 ? hash.high : hash.low;
    text[static_cast<size_t>(i)] = kDigits[(word >> (60 - 4 * (i % 16))) & 15];
  }
  return text;
}

void Hasher::add(uint64_t word) {
  a_ = fold(a_ ^ word, kOdd1) + b_;
  b_ = fold(b_ ^ word, kOdd2) ^ (a_ << 1 | a_ >> 63);
}

void Hasher::add(const void* bytes, size_t size) {
  add(static_cast<uint64_t>(size));
  const char* at = static_cast<const char*>(bytes);
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    add(word);
  }
  if (size > 0) {
    uint64_t word = 0;
    std::memcpy(&word, at, size);
    add(word);
  }
}

Hash128 Hasher::finish() const {
  Hasher last = *this;
  last.add(uint64_t{0x2545f4914f6cdd1d});
  return {last.a_, last.b_};
}

}  // namespace gangway
