#include "tools/page/page.h"

#include <cerrno>
#include <fstream>

#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"

namespace gangway::tool {
namespace {

// Document until the page has requested the running programs.
constexpr char kNothingYet[] = R"({"live":true,"program":{"name":"no program","slices":[],
"nodes":[],"functions":[],"bodies":[]}})";

// The policy that the page gives to its browser, and its position in the page.
struct Policy {
  size_t at = 0;
  std::string text;
};

Policy policy_in(const std::string& page) {
  static const std::string before = "http-equiv=\"Content-Security-Policy\" content=\"";
  const size_t at = page.find(before);
  GW_ASSERT(at != page.npos, "page: it names no policy");
  const size_t begin = at + before.size();
  return {begin, page.substr(begin, page.find('"', begin) - begin)};
}

std::string served(const Policy& policy) { return policy.text + "; connect-src 'self'"; }

}  // namespace

std::string page_html(const std::string& document) {
  std::string page = kPageBeforeDocument;
  // JSON has `<` only in strings, where it may be escaped, so that it ends no element of the page.
  for (const char c : document) {
    if (c == '<') {
      page += "\\u003c";
    } else {
      page += c;
    }
  }
  return page + kPageBehindDocument;
}

std::string served_page_html() {
  std::string page = page_html(kNothingYet);
  const Policy policy = policy_in(page);
  return page.replace(policy.at, policy.text.size(), served(policy));
}

std::string served_page_policy() { return served(policy_in(kPageBeforeDocument)); }

void write_page(const std::string& document, const std::string& file) {
  errno = 0;
  std::ofstream out(file, std::ios::binary);
  out << page_html(document);
  out.close();
  if (!out) fail_file("write the page", file, errno != 0 ? errno : EIO);
}

std::string document_of(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string document;
  for (const auto& [name, json] : fields)
    document += cat(document.empty() ? "{" : ",", "\"", name, "\":", json);
  return document + "}";
}

std::string program_document(const std::string& program_json) {
  return document_of({{"program", program_json}});
}

}  // namespace gangway::tool
