// A 128-bit content hash, stable across processes, machines and versions: BLAKE2b (RFC 7693) with a
// 16-byte digest.
//
// Functions, plans and kernel libraries are identified by their content hash, also between users
// who don't trust each other. The hash is therefore a cryptographic one.
//
// Threads: values.
// Cost: about 1 GB/s.
//
// Example:
//   Hasher hasher;
//   hasher.add("name");
//   hasher.add(uint64_t{3});
//   Hash128 hash = hasher.finish();
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gangway {

struct Hash128 {
  uint64_t high = 0;  // Bytes 0-7 of the digest, big-endian.
  uint64_t low = 0;   // Bytes 8-15.
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

std::string to_string(const Hash128& hash);  // 32 hexadecimal digits

// Hashes everything that is added, in order. Every text or block is framed by its length, so
// "ab","c" and "a","bc" differ.
class Hasher {
 public:
  Hasher();
  void add(const void* bytes, size_t size);
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(uint64_t word);
  // Adds bytes without a frame. The hash does not depend on how a stream is cut into blocks.
  void add_unframed(const void* bytes, size_t size);
  // The hash of all that was added; the hasher itself goes on unchanged.
  Hash128 finish() const;

 private:
  void compress(bool last);

  std::array<uint64_t, 8> state_;
  std::array<unsigned char, 128> block_{};
  size_t filled_ = 0;
  uint64_t total_ = 0;
};

// Hash of a whole file, printed with to_string().
std::string content_hash(std::string_view bytes);

}  // namespace gangway

template <>
struct std::hash<gangway::Hash128> {
  size_t operator()(const gangway::Hash128& digest) const noexcept { return digest.low; }
};
