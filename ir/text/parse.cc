#include <charconv>
#include <limits>

#include "ir/text/parse_internal.h"
#include "ir/text/text.h"
#include "ir/types/limits.h"
#include "ir/verify/verify.h"
#include "runtime/base/quote.h"

namespace gangway {
namespace internal {
namespace {

template <class Number>
Number number_of(const Lexer& lexer, const Token& token) {
  Number number = 0;
  const char* end = token.text.data() + token.text.size();
  auto [stop, error] = std::from_chars(token.text.data(), end, number);
  if (error != std::errc() || stop != end) {
    lexer.fail_at(token, cat("the number ", token.text, " is out of range"));
  }
  return number;
}

std::vector<int64_t> parse_ints(Lexer& lexer, size_t most) {
  std::vector<int64_t> ints;
  expect_punct(lexer, "[");
  parse_list(lexer, "]", [&] {
    if (ints.size() == most) lexer.fail(cat("at most ", most, " numbers"));
    ints.push_back(parse_int(lexer, "a number"));
  });
  return ints;
}

double parse_real(Lexer& lexer, const Token& token) {
  double infinity = std::numeric_limits<double>::infinity();
  if (token.text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (token.text == "inf") return infinity;
  if (token.text == "-inf") return -infinity;
  return number_of<double>(lexer, token);
}

AttrValue parse_attr(Lexer& lexer) {
  if (at_punct(lexer, "[")) return parse_ints(lexer, kAttrIntsMax);
  const Token& token = lexer.peek();
  switch (token.kind) {
    case TokenKind::kInt: return number_of<int64_t>(lexer, lexer.take());
    case TokenKind::kReal: return parse_real(lexer, lexer.take());
    case TokenKind::kString: return lexer.take().text;
    case TokenKind::kWord: {
      if (accept_word(lexer, "true")) return true;
      if (accept_word(lexer, "false")) return false;
      if (token.text == "inf" || token.text == "nan") return parse_real(lexer, lexer.take());
      if (auto dtype = parse_dtype(token.text)) {
        lexer.take();
        return *dtype;
      }
      break;
    }
    case TokenKind::kValue:
    case TokenKind::kFunction:
    case TokenKind::kPunct:
    case TokenKind::kEnd: break;
  }
  lexer.fail("an attribute's value (true, 1, 1.0, \"text\", [1, 2] or f32)");
}

}  // namespace

std::string parse_name(Lexer& lexer, const char* what) {
  if (lexer.peek().kind == TokenKind::kWord) return lexer.take().text;
  return lexer.expect(TokenKind::kString, what);
}

int64_t parse_int(Lexer& lexer, const char* what) {
  if (lexer.peek().kind != TokenKind::kInt) lexer.fail(what);
  return number_of<int64_t>(lexer, lexer.take());
}

int64_t parse_int_at_most(Lexer& lexer, const char* what, int64_t most) {
  Token token = lexer.peek();
  int64_t number = parse_int(lexer, what);
  if (number >= 0 && number <= most) return number;
  lexer.fail_at(token, cat("expected ", what, " from 0 to ", most, ", got ", number));
}

Type parse_type(Lexer& lexer) {
  auto dtype = parse_dtype(lexer.peek().text);
  if (lexer.peek().kind != TokenKind::kWord || !dtype) {
    lexer.fail("a type (bool, i32, bf16, f32 or f64, and sizes in brackets)");
  }
  Token token = lexer.take();
  Type type{*dtype, parse_ints(lexer, kRankMax)};
  if (!is_valid(type)) lexer.fail_at(token, "the type's sizes are out of bounds");
  return type;
}

Mesh parse_mesh(Lexer& lexer) {
  Mesh mesh;
  expect_punct(lexer, "{");
  parse_list(lexer, "}", [&] {
    if (mesh.axes.size() == kMeshAxesMax) lexer.fail(cat("at most ", kMeshAxesMax, " axes"));
    std::string name = parse_name(lexer, "an axis of a mesh");
    expect_punct(lexer, ":");
    mesh.axes.push_back({name, parse_int(lexer, "a size")});
  });
  return mesh;
}

namespace {

// "@1" behind a cut: its order.
int parse_order(Lexer& lexer) {
  if (lexer.peek().kind != TokenKind::kFunction) return 0;
  const Token token = lexer.take();
  const auto parsed = gangway::parse_placement(cat("shard(0)@", token.text));
  if (parsed) return parsed->order;
  lexer.fail_at(
      token, cat("expected a cut's order from @0 to @", kMeshAxesMax - 1, ", got @", token.text));
}

Placement parse_placement(Lexer& lexer) {
  if (accept_word(lexer, "replicate")) return replicate();
  if (accept_word(lexer, "shard")) {
    expect_punct(lexer, "(");
    const auto dim = static_cast<int>(parse_int_at_most(lexer, "a dimension", kRankMax - 1));
    expect_punct(lexer, ")");
    return shard(dim, parse_order(lexer));
  }
  if (!accept_word(lexer, "partial")) lexer.fail("shard(dimension), replicate or partial");
  if (!accept_punct(lexer, "(")) return partial();
  const auto reduction = parse_reduction(lexer.peek().text);
  if (lexer.peek().kind != TokenKind::kWord || !reduction) lexer.fail("sum, max or min");
  lexer.take();
  expect_punct(lexer, ")");
  return partial(*reduction);
}

}  // namespace

AxisPlacements parse_placements(Lexer& lexer) {
  AxisPlacements placements;
  expect_punct(lexer, "{");
  parse_list(lexer, "}", [&] {
    if (placements.size() == kMeshAxesMax) lexer.fail(cat("at most ", kMeshAxesMax, " axes"));
    std::string axis = parse_name(lexer, "an axis of a mesh");
    expect_punct(lexer, ":");
    placements.emplace_back(axis, parse_placement(lexer));
  });
  return placements;
}

Attrs parse_attrs(Lexer& lexer) {
  Attrs attrs;
  expect_punct(lexer, "{");
  parse_list(lexer, "}", [&] {
    Token token = lexer.peek();
    std::string name = parse_name(lexer, "an attribute");
    if (attrs.find(name) != nullptr) {
      lexer.fail_at(token, cat("attribute ", quote(name), " is given twice"));
    }
    if (attrs.size() == kAttrsMax) lexer.fail_at(token, "too many attributes");
    expect_punct(lexer, "=");
    attrs.set(name, parse_attr(lexer));
  });
  return attrs;
}

uint32_t parse_reference(Lexer& lexer, const Labels& labels, const char* what) {
  Token token = lexer.peek();
  auto at = labels.find(lexer.expect(TokenKind::kValue, cat("a ", what).c_str()));
  if (at != labels.end()) return at->second;
  lexer.fail_at(token, cat("expected a ", what, " that is defined before, got %", token.text));
}

void parse_label(Lexer& lexer, Labels& labels, uint32_t id) {
  Token token = lexer.peek();
  bool is_new = labels.emplace(lexer.expect(TokenKind::kValue, "%, and a number"), id).second;
  if (!is_new) lexer.fail_at(token, cat("%", token.text, " is defined twice"));
}

namespace {

Lexer lexer_of(std::string_view text, const std::string& file) {
  GW_REQUIRE(text.size() <= kTextFormBytesMax, file, ": the text is too long: expected at most ",
             kTextFormBytesMax, " bytes, got ", text.size());
  return Lexer(text, file);
}

}  // namespace
}  // namespace internal

Function parse_function(std::string_view text, const std::string& file) {
  internal::Lexer lexer = internal::lexer_of(text, file);
  internal::Bodies bodies;
  internal::parse_bodies(lexer, bodies);
  Function function = internal::parse_function_body(lexer, bodies, 0);
  if (lexer.peek().kind != internal::TokenKind::kEnd) lexer.fail("the end of the text");
  require_valid(function);
  return function;
}

}  // namespace gangway
