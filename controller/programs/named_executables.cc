#include "controller/programs/named_executables.h"

#include <utility>

#include "controller/programs/program_record.h"
#include "protocol/text_limits.h"
#include "runtime/base/cat.h"
#include "runtime/base/cut.h"
#include "runtime/base/units.h"

namespace gangway {

void NamedExecutables::name(PlanId plan, NamedExecutable named) {
  require_executable_name(named.name);
  require_room(plan, named);
  std::erase_if(by_plan_, [&](const auto& item) { return item.second.name == named.name; });
  by_plan_.insert_or_assign(plan, std::move(named));
}

void NamedExecutables::require_room(PlanId plan, const NamedExecutable& named) const {
  const auto bytes_of = [&](PlanId of, const NamedExecutable& one) {
    const PlanRecord& record = plans_.at(of, program_);
    return executable_bytes({.name = one.name,
                             .program = one.program,
                             .slices = std::vector<uint32_t>(record.slices.size()),
                             .texts = texts_of(record.texts)});
  };
  size_t bytes = bytes_of(plan, named);
  for (const auto& [of, other] : by_plan_) {
    if (other.name != named.name) bytes += bytes_of(of, other);
  }
  if (bytes <= ProgramRecord::kExecutablesBytesMax) return;
  throw Error(ErrorKind::kOverloaded,
              cat("compile: executable \"", cut(named.name, kQuotedBytesMax),
                  "\": the executables of its program take ", format_bytes(bytes),
                  " with it: expected at most ", format_bytes(ProgramRecord::kExecutablesBytesMax)),
              {}, "release some executables first");
}

void NamedExecutables::count_position(const RunFrame& run) {
  if (by_plan_.empty() || run.source_positions.empty()) return;
  if (run.source_positions[0] >= kSourcePositionMax) return;  // The run is refused.
  const auto named = by_plan_.find(run.plan);
  if (named != by_plan_.end()) named->second.position = run.source_positions[0] + 1;
}

}  // namespace gangway
