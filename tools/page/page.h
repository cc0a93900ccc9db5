// A program's graph as one page of HTML, which a browser opens without a network: drawn from what
// to_json(Program) of ir/inspect/graphviz.h gives. Its sources lie in src/.
//
// Threads: pure.
#pragma once

#include <string>

namespace gangway::tool {

// Whatever names the JSON holds, they are text on the page.
std::string page_html(const std::string& json);

// The page around the JSON, which the build writes (assemble.cmake).
extern const char* const kPageBeforeJson;
extern const char* const kPageBehindJson;

}  // namespace gangway::tool
