// Timeline: records the client's spans, and writes them to a file together with those that its
// cluster recorded.
//
// Threads: the client's reactor, whose events it records while it lives.
// Errors: kInvalid when the file can't be written, before anything is recorded.
#pragma once

#include <string>
#include <vector>

#include "runtime/observe/trace.h"

namespace gangway::internal {

class Timeline {
 public:
  Timeline(const Clock& clock, std::string path, std::string process);
  // Writes one timeline of these traces and the client's own.
  void write(std::vector<std::string> members);

 private:
  std::string path_;
  Tracer tracer_;
  TraceAttachment attached_;
};

}  // namespace gangway::internal
