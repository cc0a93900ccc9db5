#include "tools/page/page.h"

namespace gangway::tool {

std::string page_html(const std::string& json) {
  std::string page = kPageBeforeJson;
  // In JSON `<` is only found in strings; there it may be written so, and ends no element.
  for (const char c : json) {
    if (c == '<') {
      page += "\\u003c";
    } else {
      page += c;
    }
  }
  return page + kPageBehindJson;
}

}  // namespace gangway::tool
