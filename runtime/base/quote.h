// Spells names and strings for the text form, messages and JSON.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace gangway::internal {

// "\"lo\\\"ss\"": quotes, backslashes and control characters escaped; other bytes as they are.
// The escapes are those of JSON, so the result is a JSON string when the text is UTF-8.
std::string quote(std::string_view text);

// Well-formed UTF-8 without NUL.
bool is_utf8(std::string_view text);

}  // namespace gangway::internal
