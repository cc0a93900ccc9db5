#include "tools/page/page.h"

namespace gangway::tool {

std::string page_html(const std::string& document) {
  std::string page = kPageBeforeDocument;
  // In JSON `<` is only found in strings; there it may be written so, and ends no element.
  for (const char c : document) {
    if (c == '<') {
      page += "\\u003c";
    } else {
      page += c;
    }
  }
  return page + kPageBehindDocument;
}

std::string document_of(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string document;
  for (const auto& [name, json] : fields)
    document += (document.empty() ? "{\"" : ",\"") + name + "\":" + json;
  return document + "}";
}

std::string program_document(const std::string& program_json) {
  return document_of({{"program", program_json}});
}

}  // namespace gangway::tool
