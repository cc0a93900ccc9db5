// The rules of docs/house_style.md that a program can check. Each takes the whole tree and adds its
// findings; names of rules are the words in [brackets] of a finding and in tests/tidy_allow.txt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/tidy/source_tree.h"

namespace gangway::tidy {

using Tree = std::vector<SourceFile>;
using Findings = std::vector<Finding>;

// [header-size] [source-size] [function-size] [folder-size]
void check_budgets(const Tree& tree, Findings& findings);

// [line-length] [tab] [trailing-space] [final-newline] [banned-word] [todo] [machine-path] [url]
void check_text(const Tree& tree, Findings& findings);

// [banned-call] [ifdef]
void check_calls(const Tree& tree, Findings& findings);

// [path-error]
void check_paths(const Tree& tree, Findings& findings);

// [header-comment] [pragma-once] [own-header-first]
void check_headers(const Tree& tree, Findings& findings);

// [include-direction] [outside-rooms]
void check_rooms(const Tree& tree, Findings& findings);

// [docs-link]
void check_links(const Tree& tree, Findings& findings);

// [docs-place]: all places that the table "Where things go" of docs/architecture.md names exist.
void check_places(const Tree& tree, Findings& findings);

// [plain-comment]: a room has as many sentences that begin as riddles do as its budget says
// (tests/tidy_comments.txt), which only falls.
void check_comments(const Tree& tree, Findings& findings);

// [plain-test-name]: no name of a test begins as riddles do (tests/tidy/riddles.h).
void check_test_names(const Tree& tree, Findings& findings);

// The path of `#include "path"`, or empty.
std::string_view included_path(std::string_view line);

// Checks all rules above.
Findings check_all(const Tree& tree);

// Removes the findings that the lines "<rule> <path> <reason>" of `allow` excuse. A line that
// excuses nothing, or gives no reason, is itself a finding.
Findings without_allowed(Findings findings, const SourceFile& allow);

}  // namespace gangway::tidy
