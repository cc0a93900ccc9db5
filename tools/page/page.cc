#include "tools/page/page.h"

#include <fstream>

#include "runtime/base/error.h"

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

void write_page(const std::string& document, const std::string& file) {
  std::ofstream out(file, std::ios::binary);
  out << page_html(document);
  out.close();
  if (!out) throw Error(ErrorKind::kInvalid, cat("page: ", file, " cannot be written"));
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
