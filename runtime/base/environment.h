// Reads an environment variable. An empty value means that the variable is not set, as scripts mean
// it that write `NAME= command`.
//
// Threads: any, while no thread changes the environment.
#pragma once

#include <optional>
#include <string>

namespace gangway {

// Empty if the variable is not set, or set to nothing.
std::optional<std::string> environment_value(const char* name);

}  // namespace gangway
