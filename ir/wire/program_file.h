// The bytes of a program file (*.gwp), and the reader that Program::load uses.
//
//   offset  size  content
//        0     8  magic: 0x89 "GWP" CR LF 0x1a LF (a transfer as text damages it visibly)
//        8     4  version of the file form, little-endian
//       12     8  size of the wire form, little-endian
//       20     n  the wire form (ir/wire/wire.h)
//   20 + n    16  checksum of everything before it (runtime/base/hash.h), little-endian words
//
// Nothing follows.
// Threads: pure functions.
// Errors: kInvalid, naming the file and what is wrong with it; the program is verified. A text form
// (ir/text/text.h) is read too.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ir/graph/program.h"

namespace gangway {

inline constexpr uint32_t kProgramFileVersion = 1;

std::vector<std::byte> to_file_bytes(const Program& program);
// `name` is the file's, for messages.
Program program_from_file_bytes(std::span<const std::byte> bytes, const std::string& name);

}  // namespace gangway
