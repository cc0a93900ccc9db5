// ProgramRecord: a file that holds a program which goes on after a restart of its controller, with
// its slices, executables and options, and where its repetition stood.
//
//   {"gangway":"program","version":1,"head":417,"bytes":10240,"hash":"0f..."}
//   {"name":"train","owner":"ann", ...}   "head" bytes of JSON
//   the executables, in the wire form, one after the other: "bytes" bytes
//
// The hash covers everything after the first line.
//
// Every program that the controller accepts can be written, and every record that is written can be
// read back: the controller's calls, print_record() and parse_record() use the one table of bounds
// below.
//
// Threads: values and pure functions.
// Errors: require_record() and print_record() throw kInvalid for a value beyond its bound.
// parse_record() throws kInvalid, naming the file, for a text that does not have the length and the
// hash that its first line says, that lacks a field, or that has a value beyond its bound;
// kUnimplemented for a file of another version. It takes more than print_record() prints: any white
// space in the JSON, fields that it does not know (it drops them), and records of earlier releases,
// which lack some fields. The executables' bytes are verified when they are compiled.
// Cost: print_record() and parse_record() copy and hash up to kBytesMax, so call them on another
// thread than a reactor's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "controller/scheduler/earlier_schedule.h"
#include "ir/plan/dispatch.h"
#include "protocol/install.h"
#include "protocol/recovery_options.h"
#include "protocol/schedule.h"
#include "protocol/share.h"
#include "protocol/slice_shape.h"
#include "protocol/text_limits.h"

namespace gangway {

struct ProgramRecord {
  static constexpr int kVersion = 1;
  static constexpr size_t kBytesMax = size_t{256} << 20;
  // All executables together, as executable_bytes() counts them. The rest is for the other fields.
  static constexpr size_t kExecutablesBytesMax = size_t{224} << 20;
  static constexpr size_t kNameBytesMax = kProgramNameBytesMax;
  static constexpr size_t kExecutableNameBytesMax = kTextBytesMax;
  static constexpr size_t kSlicesMax = 4096,
                          kExecutablesMax = 4096;  // kSlicesMax: also of an executable.
  static constexpr size_t kReadersMax = 64;        // Readers of a slice.
  static constexpr size_t kReleasedStatesMax = 256;
  static constexpr size_t kInputsMax = size_t{1} << 16;     // Inputs of the repetition.
  static constexpr uint64_t kCountMax = uint64_t{1} << 62;  // Versions and positions.

  struct Slice {
    SliceShape shape = SliceShape(1);
    std::set<std::string> readers;  // Owners.
  };
  struct Executable {
    std::string name;
    std::shared_ptr<const std::vector<std::byte>> program;
    std::vector<uint32_t> slices;
    uint32_t runs_in_flight_max = 2;
    Dispatch dispatch = Dispatch::kParallel;
    // Position of its sources in its next run. For the repeated executable, see Repetition.
    uint64_t position = 0;
    // States that came with it have their first values in this version.
    uint64_t states_since = 0;
    std::vector<SourceText> texts = {};  // Texts that its sources read.
  };
  struct Repetition {
    uint32_t executable = 0;
    int64_t steps = 0;  // All steps, also those that are done.
    std::vector<ScheduledInput> inputs;
    std::vector<EarlierInput> earlier = {};
    uint64_t position = 0;         // Position of the sources in step 0.
    uint64_t first_version = 0;    // Version of the states before step 0.
    uint64_t restorable_from = 0;  // Checkpoints of earlier versions hold other states.
  };

  std::string name, owner;
  Share share;
  std::vector<Slice> slices;
  std::vector<Executable> executables;  // In the order in which they were compiled.
  uint32_t kept_slice = 0;              // The slice whose states have checkpoints.
  RecoveryOptions recovery;
  // States of the kept slice that no executable has any more, so that they do not come back: all,
  // or the first ones by name.
  std::vector<std::string> released_states;
  bool is_checkpointed = false;  // A checkpoint of this program, not an earlier one, is on disk.
  Repetition repetition;
};

// The most bytes that an executable takes in a record.
size_t executable_bytes(const ProgramRecord::Executable& executable);
// Checks an executable's name, also when a call gives it.
void require_executable_name(const std::string& name);
void require_record(const ProgramRecord& program);
std::string print_record(const ProgramRecord& program);
ProgramRecord parse_record(std::string_view text, const std::string& file);
// The text that print_record() would print if there were no bounds.
std::string print_unchecked(const ProgramRecord& program);
// The text of a file with this head and these executables, which are not checked.
std::string frame_record(std::string_view head, std::string_view bytes);

}  // namespace gangway
