// How the values of a program lie on devices and travel between them, and why, as JSON: the field
// "layout" of the page's document (docs/page_document.md).
//
// Threads: pure.
// Cost: linear in the program. Each reason takes time linear in its function, so functions with
// more than kReasonsMax values have none.
#pragma once

#include <cstddef>
#include <string>

#include "ir/explain/why.h"

namespace gangway::tool {

inline constexpr size_t kReasonsMax = 1000;

std::string layout_document(const ExplainedProgram& explained);

}  // namespace gangway::tool
