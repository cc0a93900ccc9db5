#include "executor/devices/device_stream.h"

namespace gangway {

const std::shared_ptr<const Error>& peer_failed() {
  static const auto kFailed = std::make_shared<const Error>(
      ErrorKind::kUnavailable, "run: another device of the plan failed", Where{},
      "its own error says why");
  return kFailed;
}

}  // namespace gangway
