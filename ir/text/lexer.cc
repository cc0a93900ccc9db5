#include "ir/text/lexer.h"

#include <algorithm>
#include <utility>

#include "ir/text/letters.h"
#include "runtime/base/quote.h"

namespace gangway::internal {
namespace {

bool in_word(char c) { return is_letter(c) || is_digit(c); }
bool in_function_name(char c) { return in_word(c) || c == '.'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::string describe(const Token& token) {
  std::string text = token.text.substr(0, 40);
  switch (token.kind) {
    case TokenKind::kEnd: return "the end of the text";
    case TokenKind::kString: return "the string " + quote(text);
    case TokenKind::kValue: return "%" + text;
    case TokenKind::kFunction: return "@" + text;
    case TokenKind::kWord:
    case TokenKind::kInt:
    case TokenKind::kReal:
    case TokenKind::kPunct: break;
  }
  return quote(text);
}

}  // namespace

Token Lexer::take() {
  Token token = std::move(token_);
  next();
  return token;
}

bool Lexer::accept(TokenKind kind, std::string_view text) {
  if (token_.kind != kind || token_.text != text) return false;
  next();
  return true;
}

void Lexer::expect(TokenKind kind, std::string_view text) {
  if (!accept(kind, text)) fail(quote(text));
}

std::string Lexer::expect(TokenKind kind, const char* what) {
  if (token_.kind != kind) fail(what);
  return take().text;
}

void Lexer::fail(const std::string& expected) const {
  fail_at(token_, cat("expected ", expected, ", got ", describe(token_)));
}

void Lexer::fail_at(const Token& token, const std::string& message) const {
  throw Error(ErrorKind::kInvalid, "text: " + message,
              {.at = cat(file_, ":", token.line, ":", token.column)});
}

void Lexer::next() {
  skip_space();
  token_ = {TokenKind::kEnd, "", line_, static_cast<int>(at_ - line_start_) + 1};
  if (at_ == text_.size()) return;
  char c = at(0);
  if (c == '"') return lex_string();
  if (c == '%') return lex_value();
  if (c == '@') return lex_function();
  if (is_digit(c) || (c == '-' && (is_digit(at(1)) || at(1) == 'i'))) return lex_number();
  if (is_letter(c)) return lex_word();
  lex_punct();
}

void Lexer::skip_space() {
  for (; at_ < text_.size(); ++at_) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = at_ + 1;
    } else if (c == '/' && at(1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

std::string Lexer::take_while(bool (*belongs)(char)) {
  size_t begin = at_;
  while (at_ < text_.size() && belongs(text_[at_])) ++at_;
  return std::string(text_.substr(begin, at_ - begin));
}

void Lexer::lex_string() {
  token_.kind = TokenKind::kString;
  for (++at_; at_ < text_.size(); ++at_) {
    char c = text_[at_];
    if (c == '"') {
      ++at_;
      return;
    }
    if (c == '\n') break;
    if (c == '\\') {
      c = at(1);
      int high = hex_digit(at(4)), low = hex_digit(at(5));
      if (c == 'n' || c == 't') {
        c = c == 'n' ? '\n' : '\t';
      } else if (c == 'u' && at(2) == '0' && at(3) == '0' && high >= 0 && high < 8 && low >= 0) {
        c = static_cast<char>(high * 16 + low);
        at_ += 4;
      } else if (c != '"' && c != '\\') {
        fail_at(token_, "unknown escape in a string: expected \\\\, \\\", \\n, \\t or \\u00hh");
      }
      ++at_;
    }
    token_.text += c;
  }
  fail_at(token_, "expected a closing quote, got the end of the line");
}

void Lexer::lex_number() {
  token_.kind = TokenKind::kInt;
  size_t begin = at_;
  if (at(0) == '-') ++at_;
  if (is_letter(at(0))) {
    std::string word = take_while(in_word);
    token_.kind = TokenKind::kReal;
    token_.text = "-" + word;
    if (word != "inf") fail("a number");
    return;
  }
  take_while(is_digit);
  if (at(0) == '.' && is_digit(at(1))) {
    token_.kind = TokenKind::kReal;
    ++at_;
    take_while(is_digit);
  }
  bool sign = at(1) == '-' || at(1) == '+';
  if (at(0) == 'e' && is_digit(at(sign ? 2 : 1))) {
    token_.kind = TokenKind::kReal;
    at_ += sign ? 2 : 1;
    take_while(is_digit);
  }
  token_.text = std::string(text_.substr(begin, at_ - begin));
  if (in_word(at(0))) fail_at(token_, cat("expected a number, got ", quote(token_.text + at(0))));
}

void Lexer::lex_word() {
  token_.kind = TokenKind::kWord;
  token_.text = take_while(in_word);
}

void Lexer::lex_value() {
  ++at_;
  token_.kind = TokenKind::kValue;
  token_.text = take_while(is_digit);
  if (token_.text.empty()) fail_at(token_, "expected a number behind %");
}

void Lexer::lex_function() {
  ++at_;
  if (at(0) == '"') {
    lex_string();
  } else {
    token_.text = take_while(in_function_name);
  }
  token_.kind = TokenKind::kFunction;
  if (token_.text.empty()) fail_at(token_, "expected a function's name behind @");
}

void Lexer::lex_punct() {
  token_.kind = TokenKind::kPunct;
  bool arrow = at(0) == '-' && at(1) == '>';
  token_.text = std::string(text_.substr(at_, arrow ? 2 : 1));
  at_ += token_.text.size();
  constexpr std::string_view kKnown = "(){}[],:=.";
  if (!arrow && kKnown.find(token_.text[0]) == std::string_view::npos) {
    auto byte = static_cast<unsigned char>(token_.text[0]);
    fail_at(token_, byte >= 0x20 && byte < 0x7f ? cat("unknown character ", quote(token_.text))
                                                : cat("unknown byte ", int{byte}));
  }
}

}  // namespace gangway::internal
