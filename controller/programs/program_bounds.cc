// The one place where the bounds of a program record are checked.
#include "controller/programs/program_record.h"
#include "controller/scheduler/repeats.h"
#include "protocol/messages.h"
#include "protocol/owner.h"
#include "runtime/base/quote.h"

namespace gangway {
namespace {

void require_count(const char* what, size_t count, size_t min, size_t max) {
  GW_REQUIRE(count >= min && count <= max, "expected ", min, " to ", max, " ", what, ", got ",
             count);
}

void require_index(const char* what, uint64_t index, size_t count) {
  GW_REQUIRE(index < count, "expected ", what, " to be at most ", count - 1, ", got ", index);
}

void require_count_of_program(const char* what, uint64_t value) {
  GW_REQUIRE(value <= ProgramRecord::kCountMax, "expected ", what, " to be at most ",
             ProgramRecord::kCountMax, ", got ", value);
}

void require_text(const char* what, const std::string& text, size_t max) {
  GW_REQUIRE(!text.empty() && text.size() <= max && internal::is_utf8(text), "expected ", what,
             " to be 1 to ", max, " bytes of UTF-8 text, got ", text.size(), " bytes");
}

void require_slice(const ProgramRecord::Slice& slice) {
  require_possible(slice.shape);
  require_count("\"readers\"", slice.readers.size(), 0, ProgramRecord::kReadersMax);
  for (const std::string& name : slice.readers)
    GW_REQUIRE(name == "*" || is_owner_name(name), "expected \"readers\" to be owners' names");
}

void require_texts(const std::vector<SourceText>& texts) {
  require_count("\"texts\"", texts.size(), 0, kTextsMax);
  for (const SourceText& text : texts) {
    require_text("\"path\"", text.path, kTextPathBytesMax);
    require_text("\"hash\"", text.hash, kTextBytesMax);
    require_count_of_program("\"bytes\" of a text", text.bytes);
  }
}

void require_executables(const ProgramRecord& program) {
  require_count("\"executables\"", program.executables.size(), 1, ProgramRecord::kExecutablesMax);
  size_t bytes = 0;
  for (const ProgramRecord::Executable& executable : program.executables) {
    require_executable_name(executable.name);
    require_count("\"slices\" of an executable", executable.slices.size(), 0,
                  ProgramRecord::kSlicesMax);
    for (const uint32_t slice : executable.slices)
      require_index("\"slices\" of an executable", slice, program.slices.size());
    require_count_of_program("\"position\"", executable.position);
    require_count_of_program("\"states_since\"", executable.states_since);
    require_texts(executable.texts);
    bytes += executable_bytes(executable);
  }
  require_count("bytes of \"executables\"", bytes, 0, ProgramRecord::kExecutablesBytesMax);
}

void require_repetition(const ProgramRecord::Repetition& repetition, size_t executables) {
  require_index("\"executable\"", repetition.executable, executables);
  GW_REQUIRE(repetition.steps >= 1 && repetition.steps <= kRepeatStepsMax, "expected 1 or more ",
             "\"steps\", up to ", kRepeatStepsMax, ", got ", repetition.steps);
  require_count("\"inputs\"", repetition.inputs.size() + repetition.earlier.size(), 0,
                ProgramRecord::kInputsMax);
  size_t values = 0, constants = 0;
  for (const ScheduledInput& input : repetition.inputs) {
    if (const auto* bytes = std::get_if<std::vector<std::byte>>(&input.value))
      constants += bytes->size();
  }
  for (const EarlierInput& input : repetition.earlier) {
    require_schedule("an input", *input.schedule);
    values += input.schedule->list_size();
  }
  require_count("values of lists", values, 0, kScheduleValuesMax);
  require_count("bytes of constants", constants, 0, kInlineBytesMax);
  require_count_of_program("\"position\"", repetition.position);
  require_count_of_program("\"first_version\"", repetition.first_version);
  require_count_of_program("\"restorable_from\"", repetition.restorable_from);
  GW_REQUIRE(repetition.restorable_from >= repetition.first_version,
             "\"restorable_from\" is before the \"first_version\"");
}

}  // namespace

size_t executable_bytes(const ProgramRecord::Executable& executable) {
  constexpr size_t kEscapedByte = 6, kIndexBytes = 5, kOthers = 256;
  size_t bytes = executable.program->size() + kEscapedByte * executable.name.size() +
                 kIndexBytes * executable.slices.size() + kOthers;
  for (const SourceText& text : executable.texts)
    bytes += kEscapedByte * (text.path.size() + text.hash.size()) + kOthers;
  return bytes;
}

void require_executable_name(const std::string& name) {
  require_text("an executable's name", name, ProgramRecord::kExecutableNameBytesMax);
}

void require_record(const ProgramRecord& program) {
  require_text("\"name\"", program.name, ProgramRecord::kNameBytesMax);
  GW_REQUIRE(is_owner_name(program.owner), "expected an \"owner\"");
  require_share("\"share\"", program.share);
  require_count("\"slices\"", program.slices.size(), 1, ProgramRecord::kSlicesMax);
  for (const ProgramRecord::Slice& slice : program.slices) require_slice(slice);
  require_executables(program);
  require_index("\"kept_slice\"", program.kept_slice, program.slices.size());
  require_recovery(program.recovery);
  require_count("\"released_states\"", program.released_states.size(), 0,
                ProgramRecord::kReleasedStatesMax);
  for (const std::string& name : program.released_states)
    require_text("\"released_states\"", name, kTextBytesMax);
  require_repetition(program.repetition, program.executables.size());
}

}  // namespace gangway
