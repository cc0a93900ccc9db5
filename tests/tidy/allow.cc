#include <sstream>

#include "tests/tidy/rules.h"

namespace gangway::tidy {

Findings check_all(const Tree& tree) {
  Findings findings;
  for (auto check : {check_budgets, check_text, check_calls, check_paths, check_headers,
                     check_rooms, check_links, check_places, check_comments, check_test_names}) {
    check(tree, findings);
  }
  return findings;
}

Findings without_allowed(Findings findings, const SourceFile& allow) {
  Findings about_allow;
  for (size_t i = 0; i < allow.lines.size(); ++i) {
    std::istringstream line(allow.lines[i]);
    std::string rule, path, reason;
    line >> rule >> path;
    if (rule.empty() || rule[0] == '#') continue;
    std::getline(line >> std::ws, reason);
    if (reason.empty()) about_allow.push_back({"allow", allow.path, i + 1, "gives no reason"});
    const size_t excused =
        std::erase_if(findings, [&](const Finding& f) { return f.rule == rule && f.path == path; });
    if (excused == 0)
      about_allow.push_back({"allow", allow.path, i + 1, "excuses nothing: remove the line"});
  }
  findings.insert(findings.end(), about_allow.begin(), about_allow.end());
  return findings;
}

}  // namespace gangway::tidy
