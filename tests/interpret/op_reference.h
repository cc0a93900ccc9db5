// The op reference of docs/ir.md, written from the op table, so that it cannot differ from it.
//
// Threads: a pure function.
#pragma once

#include <string>

namespace gangway {

// The heading with which the generated part of docs/ir.md begins.
inline constexpr char kOpReferenceHeading[] = "## Op reference\n";

// Markdown from that heading to the end of the page.
std::string op_reference();

}  // namespace gangway
