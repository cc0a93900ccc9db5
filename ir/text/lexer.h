// Tokens of the text form, with their line and column.
//
// Comments run from // to the end of the line.
// Threads: one.
// Errors: kInvalid with the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/error.h"

namespace gangway::internal {

enum class TokenKind {
  kWord,      // mul, f32, inf
  kString,    // "two words"; `text` holds what it means.
  kInt,       // 12, -1
  kReal,      // 1.0, -inf, 1e-05
  kValue,     // %12; `text` holds the digits.
  kFunction,  // @init.0, @"two words"; `text` holds the name.
  kPunct,     // ( ) { } [ ] , : = . ->
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 1;
  int column = 1;
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string file) : text_(text), file_(std::move(file)) { next(); }

  const Token& peek() const { return token_; }
  Token take();  // The current token; moves on.

  // Moves over the token when it is this one.
  bool accept(TokenKind kind, std::string_view text);
  void expect(TokenKind kind, std::string_view text);
  // The token's text; `what` says what was expected: "a name".
  std::string expect(TokenKind kind, const char* what);

  // "expected <what>, got <the current token>", with its place.
  [[noreturn]] void fail(const std::string& expected) const;
  [[noreturn]] void fail_at(const Token& token, const std::string& message) const;
  const std::string& file() const { return file_; }

 private:
  void next();
  void skip_space();
  void lex_string();
  void lex_number();
  void lex_word();
  void lex_value();
  void lex_function();
  void lex_punct();
  char at(size_t offset) const { return at_ + offset < text_.size() ? text_[at_ + offset] : '\0'; }
  std::string take_while(bool (*belongs)(char));

  std::string_view text_;
  std::string file_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
  Token token_;
};

}  // namespace gangway::internal
