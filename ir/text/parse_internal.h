// The parts of the text form that functions and programs share, as the parser reads them.
//
// Threads: one.
// Errors: kInvalid with the place. Sizes are bounded as the verifier bounds them.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph/bodies.h"
#include "ir/graph/program.h"
#include "ir/text/lexer.h"

namespace gangway::internal {

// The numbers that a text gives to values or nodes, and what they stand for.
using Labels = std::unordered_map<std::string, uint32_t>;

std::string parse_name(Lexer& lexer, const char* what);  // A word or a string.
int64_t parse_int(Lexer& lexer, const char* what);
int64_t parse_int_at_most(Lexer& lexer, const char* what, int64_t most);  // And at least 0.
Type parse_type(Lexer& lexer);
Mesh parse_mesh(Lexer& lexer);
AxisPlacements parse_placements(Lexer& lexer);
Attrs parse_attrs(Lexer& lexer);
// A reference to a value or node that was defined before; `what` is "value" or "node".
uint32_t parse_reference(Lexer& lexer, const Labels& labels, const char* what);
// A new value or node, which gets the number `id`.
void parse_label(Lexer& lexer, Labels& labels, uint32_t id);

// The bodies that stand before the functions that name them.
struct Bodies {
  Labels labels;
  std::vector<std::shared_ptr<const Function>> functions;
  BodySizes sizes;
};

// From "func" or "local" to the closing brace; not verified.
Function parse_function_body(Lexer& lexer, const Bodies& bodies, int depth);
// Every `body 0 func @layer(...) { ... }` that stands here.
void parse_bodies(Lexer& lexer, Bodies& bodies);

inline bool at_punct(const Lexer& lexer, std::string_view text) {
  return lexer.peek().kind == TokenKind::kPunct && lexer.peek().text == text;
}
inline bool at_word(const Lexer& lexer, std::string_view text) {
  return lexer.peek().kind == TokenKind::kWord && lexer.peek().text == text;
}
inline bool accept_punct(Lexer& lexer, std::string_view text) {
  return lexer.accept(TokenKind::kPunct, text);
}
inline void expect_punct(Lexer& lexer, std::string_view text) {
  lexer.expect(TokenKind::kPunct, text);
}
inline bool accept_word(Lexer& lexer, std::string_view text) {
  return lexer.accept(TokenKind::kWord, text);
}
inline void expect_word(Lexer& lexer, std::string_view text) {
  lexer.expect(TokenKind::kWord, text);
}

// item, item, ... up to the closing punctuation, which it takes.
template <class Item>
void parse_list(Lexer& lexer, std::string_view close, Item item) {
  if (accept_punct(lexer, close)) return;
  do item();
  while (accept_punct(lexer, ","));
  expect_punct(lexer, close);
}

}  // namespace gangway::internal
