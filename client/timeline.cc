#include "client/timeline.h"

#include <cerrno>
#include <fstream>

#include "runtime/base/durable_file.h"

namespace gangway::internal {
namespace {

void require_written(const std::ofstream& file, const std::string& path) {
  if (!file.good()) fail_file("write the trace", path, errno != 0 ? errno : EIO);
}

}  // namespace

Timeline::Timeline(const Clock& clock, std::string path, std::string process)
    : path_(std::move(path)),
      tracer_(clock, std::move(process)),
      attached_(tracer_.attach("reactor")) {
  require_written(std::ofstream(path_), path_);
}

void Timeline::write(std::vector<std::string> members) {
  members.insert(members.begin(), to_chrome_json({tracer_.drain()}));
  std::ofstream file(path_, std::ios::binary);
  file << merge_chrome_json(members);
  file.close();
  require_written(file, path_);
}

}  // namespace gangway::internal
