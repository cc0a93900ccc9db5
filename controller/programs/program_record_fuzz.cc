// Any bytes, as a whole file and as the rest of a file whose first line has the right hash, either
// are refused with an Error or parse to a program that prints and parses to the same again.
#include "controller/programs/program_record.h"

#include <cstddef>
#include <cstdint>

#include "runtime/base/error.h"

namespace {

void try_one(std::string_view text) {
  using namespace gangway;
  ProgramRecord program;
  try {
    program = parse_record(text, "fuzz");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid && error.kind() != ErrorKind::kUnimplemented)
      __builtin_trap();
    return;
  }
  const std::string printed = print_record(program);
  if (print_record(parse_record(printed, "again")) != printed) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_one(text);
  const size_t end = text.find('\n');
  if (end != text.npos)
    try_one(gangway::frame_record(text.substr(0, end + 1), text.substr(end + 1)));
  return 0;
}
