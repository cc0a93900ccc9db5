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

std::string program_document(const std::string& program_json) {
  return "{\"program\":" + program_json + "}";
}

}  // namespace gangway::tool
