#include "tests/inspect/sample_programs.h"

#include "controller/plans/lower.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "programs/train/language_model.h"
#include "programs/train/train.h"
#include "tests/support/small_programs.h"

namespace gangway {
namespace {

// kNameBytesMax, whose header does not go together with the protocol's.
constexpr size_t kLongestName = 1024;

}  // namespace

Program quickstart_program() {
  return programs::train_step(programs::quickstart_options().config, Mesh{{{"data", 4}}});
}

Program two_stages() { return there_and_back(Mesh{{{"data", 2}}}); }

Program hostile_program() {
  ProgramBuilder b(kHostileName, Mesh{{{"\" axis \\", 2}}});
  const Value state = b.state("\x01\x1b[31m\n\r\t\"quoted\\", zeros(f32({4})));
  Builder::Scope scope(b.builder(), std::string(kLongestName, 'x'), {"a\\b\".cc", 1});
  Builder::Scope inner(b.builder(), "a/b;c", {"b.cc", 2});
  const Value next = state + 1;
  b.update(state, next);
  b.output(kHostileName, next);
  Program program = b.build();
  // No verifier reads places of the program's own nodes.
  for (ProgramNode& node : program.nodes) node.loc = {.file = "\xff\xc3\x28\x00.cc", .line = 3};
  return program;
}

Plan plan_of(const Program& program) {
  LowerOptions options{.hosts = {"host"}};
  uint32_t first = 0;
  for (const ProgramSlice& slice : program.slices) {
    const auto devices = static_cast<uint32_t>(slice.mesh.devices());
    options.slices.push_back({{.host = 0, .first = first, .count = devices}});
    first += devices;
  }
  CompileCache cache;
  return lower(program, options, cache);
}

}  // namespace gangway
