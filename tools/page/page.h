// Shows a program as one page of HTML, which a browser opens without a network. The page's sources
// lie in src/.
//
// The page reads one JSON object, the document. docs/page_document.md describes its fields.
//
// Threads: pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gangway::tool {

// Writes the page of a document. Throws kInvalid when the file can't be written.
void write_page(const std::string& document, const std::string& file);

// Returns the page of a document, which is JSON. Names in it are only text on the page.
std::string page_html(const std::string& document);

// Returns the document with these fields: a name, which needs no escapes, and JSON.
std::string document_of(const std::vector<std::pair<std::string, std::string>>& fields);

// Returns the document of a program alone, from its JSON.
std::string program_document(const std::string& program_json);

// Returns the page for a server: it requests its data from that server alone. The policy is the one
// that the page itself names, for a header.
std::string served_page_html();
std::string served_page_policy();

// The page before and behind the document. The build writes both (assemble.cmake).
extern const char* const kPageBeforeDocument;
extern const char* const kPageBehindDocument;

}  // namespace gangway::tool
