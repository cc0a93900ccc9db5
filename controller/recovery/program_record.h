// ProgramRecord: a program that goes on behind a restart of its controller, in a file: what it was
// given, and where its repetition stood.
//
//   {"gangway":"program","version":1,"head":417,"bytes":10240,"hash":"0f..."}
//   {"name":"train","owner":"ann", ...}   so many bytes of JSON
//   the executables, in the wire form, one behind the other
//
// The hash is of all that follows the first line.
//
// What the controller accepts of a program can be written, and what is written can be read back:
// its calls, print_record() and parse_record() are held to the one table of bounds below.
//
// Threads: values and pure functions.
// Errors: require_record() and print_record() throw kInvalid for what is beyond a bound.
// parse_record() throws kInvalid, naming the file, for whatever print_record() would not have
// printed; kUnimplemented for a file of another version. The executables' bytes are verified where
// they are compiled.
// Cost: print_record() and parse_record() copy and hash up to kBytesMax: beside a reactor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

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
  // Of all executables together, as executable_bytes() counts them: the rest is the others'.
  static constexpr size_t kExecutablesBytesMax = size_t{224} << 20;
  static constexpr size_t kNameBytesMax = kProgramNameBytesMax;
  static constexpr size_t kExecutableNameBytesMax = kTextBytesMax;
  static constexpr size_t kSlicesMax = 4096,
                          kExecutablesMax = 4096;  // And slices of an executable.
  static constexpr size_t kReadersMax = 64;        // Of a slice.
  static constexpr size_t kReleasedStatesMax = 256;
  static constexpr size_t kInputsMax = size_t{1} << 16;     // Of the repetition.
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
    uint64_t position = 0;  // Of its sources in its next run; not of the repeated one.
    // States that came with it have their first values in this version.
    uint64_t states_since = 0;
    std::vector<SourceText> texts = {};  // That they read.
  };
  struct Repetition {
    uint32_t executable = 0;
    int64_t steps = 0;  // In all.
    std::vector<ScheduledInput> inputs;
    uint64_t position = 0;         // Of the sources in step 0.
    uint64_t first_version = 0;    // Of the states before step 0.
    uint64_t restorable_from = 0;  // Checkpoints of earlier versions are of other states.
  };

  std::string name, owner;
  Share share;
  std::vector<Slice> slices;
  std::vector<Executable> executables;  // In the order in which they were compiled.
  uint32_t kept_slice = 0;              // That checkpoints are kept of.
  RecoveryOptions recovery;
  // States of the kept slice that no executable has any more, so that they do not come back: all,
  // or the first ones by name.
  std::vector<std::string> released_states;
  bool is_checkpointed = false;  // One of this program, and of no earlier one, is on the disk.
  Repetition repetition;
};

// What an executable takes of a record, at most.
size_t executable_bytes(const ProgramRecord::Executable& executable);
// An executable's name, as the call that gives it is checked.
void require_executable_name(const std::string& name);
void require_record(const ProgramRecord& program);
std::string print_record(const ProgramRecord& program);
ProgramRecord parse_record(std::string_view text, const std::string& file);
// The text of a file that has this head and these executables, whatever they are.
std::string frame_record(std::string_view head, std::string_view bytes);

}  // namespace gangway
