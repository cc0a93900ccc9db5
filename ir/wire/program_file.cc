#include "ir/wire/program_file.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "ir/text/text.h"
#include "ir/types/limits.h"
#include "ir/verify/verify.h"
#include "ir/wire/wire.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/quote.h"

namespace gangway {
namespace {

constexpr unsigned char kMagic[8] = {0x89, 'G', 'W', 'P', '\r', '\n', 0x1a, '\n'};
constexpr size_t kHeaderBytes = 20;
constexpr size_t kChecksumBytes = 16;
constexpr size_t kFileBytesMax = kTextFormBytesMax + kHeaderBytes + kChecksumBytes;

void put(std::vector<std::byte>& out, uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(number >> (8 * i)));
}

uint64_t get(std::span<const std::byte> in, size_t at, int bytes) {
  uint64_t number = 0;
  for (int i = 0; i < bytes; ++i) {
    number |= std::to_integer<uint64_t>(in[at + static_cast<size_t>(i)]) << (8 * i);
  }
  return number;
}

Hash128 checksum(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.add(bytes.data(), bytes.size());
  return hasher.finish();
}

[[noreturn]] void fail(const std::string& name, const std::string& what, std::string hint = {}) {
  throw Error(ErrorKind::kInvalid, cat("program file ", name, ": ", what), {}, std::move(hint));
}

Program from_binary(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kHeaderBytes) fail(name, "truncated: the header is incomplete");
  if (uint64_t version = get(bytes, 8, 4); version != kProgramFileVersion) {
    fail(name, cat("is of version ", version, ": expected version ", kProgramFileVersion),
         "read it with the Gangway that wrote it, and save its text form");
  }
  uint64_t size = get(bytes, 12, 8);
  uint64_t rest = bytes.size() - kHeaderBytes;
  if (rest < kChecksumBytes || size > rest - kChecksumBytes) {
    fail(name, cat("truncated: expected ", size, " bytes of program and ", kChecksumBytes,
                   " of checksum, got ", rest));
  }
  if (size < rest - kChecksumBytes) {
    fail(name, cat("too long: ", rest - kChecksumBytes - size, " bytes follow the program"));
  }
  size_t end = kHeaderBytes + size;
  Hash128 sum = checksum(bytes.first(end));
  if (get(bytes, end, 8) != sum.high || get(bytes, end + 8, 8) != sum.low) {
    fail(name, "damaged: the checksum differs", "copy it again from where it was saved");
  }
  return program_from_wire(bytes.subspan(kHeaderBytes, size));
}

bool is_text(std::span<const std::byte> bytes) {
  for (std::byte byte : bytes.first(std::min<size_t>(bytes.size(), 512))) {
    auto c = std::to_integer<unsigned char>(byte);
    if (c < 0x20 && c != '\n' && c != '\r' && c != '\t') return false;
  }
  return !bytes.empty();
}

}  // namespace

std::vector<std::byte> to_file_bytes(const Program& program) {
  std::vector<std::byte> wire = to_wire(program);
  std::vector<std::byte> out;
  out.reserve(kHeaderBytes + wire.size() + kChecksumBytes);
  for (unsigned char c : kMagic) out.push_back(std::byte{c});
  put(out, kProgramFileVersion, 4);
  put(out, wire.size(), 8);
  out.insert(out.end(), wire.begin(), wire.end());
  Hash128 sum = checksum(out);
  put(out, sum.high, 8);
  put(out, sum.low, 8);
  return out;
}

Program program_from_file_bytes(std::span<const std::byte> bytes, const std::string& name) {
  try {
    if (bytes.size() >= sizeof kMagic && std::memcmp(bytes.data(), kMagic, sizeof kMagic) == 0) {
      return from_binary(bytes, name);
    }
    if (bytes.empty()) fail(name, "is empty");
    if (!is_text(bytes)) fail(name, "is not a program: it begins with neither form of one");
    return parse_program({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                         name.substr(name.rfind('/') + 1));
  } catch (Error& error) {
    // The text form's errors name the file at their place; the wire form's do not.
    if (error.message().find(name) == std::string::npos) error.add_context("program file " + name);
    throw;
  }
}

void Program::save(const std::string& path) const {
  require_valid(*this);
  const std::vector<std::byte> bytes = to_file_bytes(*this);
  replace_whole(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Program Program::load(const std::string& path) {
  const std::string bytes = read_whole(path, kFileBytesMax);
  return program_from_file_bytes(std::as_bytes(std::span(bytes)), path);
}

}  // namespace gangway
