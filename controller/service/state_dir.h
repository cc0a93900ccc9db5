// StateDir: data that a controller keeps for the next one, in a folder that only it writes.
//
//   hosts.jsonl     the names that hosts have had, and their owners: replaced as a whole
//   programs/       a file for each program that is to go on behind a restart, OWNER.NAME with
//                   all but letters, digits, '-' and '_' as %XX, replaced as a whole; nobody but
//                   its user can read it (controller/programs/program_record.h)
//   programs.jsonl  a line for each program that began or ended: appended to; beyond 8 MiB it
//                   becomes programs.1.jsonl, and a new one begins
//   set_aside/      files that could not be read when a controller started, to be mended by hand
//
// Each line is a JSON object, the first of a file says its kind and version:
//
//   {"gangway":"hosts","version":1,"hosts":2}
//   {"name":"e1","owner":"ann"}
//   {"name":"e2","owner":"ann"}
//
// Data is on the disk when the call that writes it returns. A folder that can't be used (of another
// version, in use by another controller, not writable) is refused before anything in it is changed.
// A corrupt file in it is moved to set_aside/: the names or the program that it holds are lost, and
// nothing else.
//
// Threads: one at a time.
// Ownership: holds the folder's lock (flock) while it lives.
// Errors: the constructor throws kInvalid that names the folder, or file and line, and says in its
// hint what to do. Other functions throw as runtime/base/durable_file.h does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "controller/programs/program_record.h"

namespace gangway {

struct KeptHost {
  std::string name, owner;
  friend bool operator==(const KeptHost&, const KeptHost&) = default;
};

class StateDir {
 public:
  static constexpr int kVersion = 1;
  static constexpr size_t kProgramsBytesMax = 8 << 20;

  // Creates the folder if there is none.
  explicit StateDir(std::filesystem::path folder);
  ~StateDir();
  StateDir(const StateDir&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // The folder's content when this was created.
  const std::vector<KeptHost>& hosts() const { return hosts_; }
  const std::vector<ProgramRecord>& programs() const { return programs_; }
  // Files that could not be read then, and were moved.
  struct SetAside {
    std::filesystem::path was, is;
    std::string why;
  };
  const std::vector<SetAside>& set_aside() const { return set_aside_; }

  void write_hosts(std::span<const KeptHost> hosts);
  // Whole lines, each a JSON object with its end of line.
  void append_to_programs(std::string_view lines);
  // `text`: as print_record() gives it.
  void write_program(const std::string& owner, const std::string& name, std::string_view text);
  void remove_program(const std::string& owner, const std::string& name);

 private:
  void lock();
  void require_writable(const std::filesystem::path& folder) const;
  void read_hosts();
  void read_log_header();
  void read_programs();
  ProgramRecord read_program(const std::filesystem::path& file) const;
  void set_aside_files();
  void remove_left_over_files();

  std::filesystem::path folder_;
  int folder_fd_ = -1;
  std::vector<KeptHost> hosts_;
  std::vector<ProgramRecord> programs_;
  std::vector<SetAside> set_aside_;
};

// The text of a hosts.jsonl.
std::string print_hosts(std::span<const KeptHost> hosts);
// Reads the text of a hosts.jsonl. `file` names it in messages. kInvalid for a line that is no JSON
// object, lacks a field or has a name beyond its bounds, for a name that is there twice and for
// another number of hosts than the first line says; kUnimplemented for another version. Fields that
// it does not know are dropped.
std::vector<KeptHost> parse_hosts(std::string_view text, const std::string& file);

}  // namespace gangway
