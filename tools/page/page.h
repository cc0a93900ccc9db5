// What Gangway knows of a program as one page of HTML, which a browser opens without a network. Its
// sources lie in src/.
//
// The page reads one JSON object, the document, whose fields docs/page_document.md says.
//
// Threads: pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gangway::tool {

// Writes the page of a document. Throws kInvalid when the file can't be written.
void write_page(const std::string& document, const std::string& file);

// The page of a document, as JSON. Whatever names it holds, they are text on the page.
std::string page_html(const std::string& document);

// The document with these fields: a name, which needs no escapes, and JSON.
std::string document_of(const std::vector<std::pair<std::string, std::string>>& fields);

// The document of a program alone, from its JSON.
std::string program_document(const std::string& program_json);

// The page as a server gives it: it asks that server alone for what it shows. The policy is the one
// that it names itself, for a header.
std::string served_page_html();
std::string served_page_policy();

// The page around the document, which the build writes (assemble.cmake).
extern const char* const kPageBeforeDocument;
extern const char* const kPageBehindDocument;

}  // namespace gangway::tool
