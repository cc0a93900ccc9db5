#include <algorithm>
#include <optional>
#include <utility>

#include "ir/text/parse_internal.h"
#include "ir/text/text.h"
#include "ir/types/limits.h"
#include "ir/verify/verify.h"
#include "runtime/base/quote.h"

namespace gangway {
namespace {

using namespace internal;

class ProgramParser {
 public:
  explicit ProgramParser(Lexer& lexer) : lexer_(lexer) {}

  Program run() {
    expect_word(lexer_, "program");
    p_.name = lexer_.expect(TokenKind::kFunction, "the program's name (@name)");
    if (accept_word(lexer_, "finite")) {
      p_.finite_output = lexer_.expect(TokenKind::kString, "an output's name in quotes");
    }
    if (accept_word(lexer_, "deterministic")) p_.numerics.deterministic = parse_flag();
    if (accept_word(lexer_, "allow_tf32")) p_.numerics.allow_tf32 = parse_flag();
    expect_punct(lexer_, "{");
    while (at_word(lexer_, "slice")) parse_slice();
    parse_bodies(lexer_, bodies_);
    while (at_word(lexer_, "func") || at_word(lexer_, "local")) parse_function();
    while (!accept_punct(lexer_, "}")) parse_node();
    return std::move(p_);
  }

 private:
  bool parse_flag() {
    if (accept_word(lexer_, "true")) return true;
    if (!accept_word(lexer_, "false")) lexer_.fail("true or false");
    return false;
  }

  void parse_slice() {
    expect_word(lexer_, "slice");
    if (p_.slices.size() == kSlicesMax) lexer_.fail("fewer slices");
    Token token = lexer_.peek();
    std::string name = lexer_.expect(TokenKind::kString, "the slice's name in quotes");
    auto id = static_cast<uint32_t>(p_.slices.size());
    if (!slices_.emplace(name, id).second) {
      lexer_.fail_at(token, cat("two slices are called ", quote(name)));
    }
    expect_word(lexer_, "mesh");
    p_.slices.push_back({name, parse_mesh(lexer_)});
  }

  void parse_function() {
    if (p_.functions.size() == kFunctionsMax) lexer_.fail("fewer functions");
    Token token = lexer_.peek();
    auto function = std::make_shared<Function>(parse_function_body(lexer_, bodies_, 0));
    auto id = static_cast<uint32_t>(p_.functions.size());
    if (!functions_.emplace(function->name, id).second) {
      lexer_.fail_at(token, cat("two functions are called @", function->name));
    }
    p_.functions.push_back(std::move(function));
  }

  void parse_node() {
    if (p_.nodes.size() == kNodesMax) lexer_.fail("fewer nodes");
    Token label = lexer_.peek();
    lexer_.expect(TokenKind::kValue, "a node (%0 = ...) or \"}\"");
    ProgramNode node{.loc = {.file = lexer_.file(), .line = label.line}};
    expect_punct(lexer_, "=");
    node.kind = parse_kind();
    node.name = lexer_.expect(TokenKind::kString, "the node's name in quotes");
    if (accept_word(lexer_, "on")) node.slice = parse_name_of(slices_, TokenKind::kString, "slice");
    if (lexer_.peek().kind == TokenKind::kFunction) {
      node.function = parse_name_of(functions_, TokenKind::kFunction, "function");
    }
    if (accept_punct(lexer_, "(")) parse_list(lexer_, ")", [&] { parse_edge(node); });
    if (accept_punct(lexer_, "->")) {
      do parse_result(node);
      while (accept_punct(lexer_, ","));
    }
    if (accept_word(lexer_, "stacked")) node.stacked = parse_stacked();
    if (accept_word(lexer_, "with")) node.attrs = parse_attrs(lexer_);
    if (accept_word(lexer_, "updates")) {
      expect_punct(lexer_, "{");
      parse_list(lexer_, "}", [&] { parse_update(node); });
    }
    if (accept_word(lexer_, "firing")) node.firing = parse_firing();
    if (!labels_.emplace(label.text, static_cast<uint32_t>(p_.nodes.size())).second) {
      lexer_.fail_at(label, cat("%", label.text, " is defined twice"));
    }
    p_.nodes.push_back(std::move(node));
  }

  NodeKind parse_kind() {
    for (int i = 0; i <= static_cast<int>(NodeKind::kWhile); ++i) {
      if (accept_word(lexer_, to_string(static_cast<NodeKind>(i)))) return static_cast<NodeKind>(i);
    }
    lexer_.fail("state, input, source, call, transfer or output");
  }

  uint32_t parse_name_of(const Labels& names, TokenKind kind, const char* what) {
    Token token = lexer_.peek();
    auto at = names.find(lexer_.expect(kind, what));
    if (at == names.end()) lexer_.fail_at(token, cat("there is no ", what, " ", quote(token.text)));
    return at->second;
  }

  void parse_edge(ProgramNode& node) {
    if (node.inputs.size() == kInputsMax) lexer_.fail("fewer operands");
    Edge edge{.node = parse_reference(lexer_, labels_, "node")};
    if (accept_punct(lexer_, ".")) {
      edge.result = static_cast<uint32_t>(parse_int_at_most(lexer_, "a result", kResultsMax));
    }
    if (accept_word(lexer_, "back")) edge.version = parse_int(lexer_, "a number of runs");
    node.inputs.push_back(edge);
  }

  void parse_result(ProgramNode& node) {
    if (node.types.size() == kResultsMax) lexer_.fail("fewer results");
    node.types.push_back(parse_type(lexer_));
    node.placements.push_back(at_punct(lexer_, "{") ? parse_placements(lexer_) : AxisPlacements{});
  }

  void parse_update(ProgramNode& node) {
    if (node.updates.size() == kResultsMax) lexer_.fail("fewer updates");
    StateUpdate update{.state = parse_reference(lexer_, labels_, "node")};
    expect_punct(lexer_, ":");
    update.result = static_cast<uint32_t>(parse_int_at_most(lexer_, "a result", kResultsMax));
    node.updates.push_back(update);
  }

  StackedLayers parse_stacked() {
    StackedLayers stacked;
    expect_punct(lexer_, "(");
    stacked.first = parse_int(lexer_, "the number of the first layer");
    expect_punct(lexer_, ",");
    stacked.count = parse_int(lexer_, "a number of layers");
    expect_punct(lexer_, ",");
    stacked.name_tail =
        static_cast<uint32_t>(parse_int_at_most(lexer_, "components of the name", kNameBytesMax));
    if (accept_punct(lexer_, ","))
      stacked.base = lexer_.expect(TokenKind::kString, "the layers' common name in quotes");
    expect_punct(lexer_, ")");
    return stacked;
  }

  FiringRule parse_firing() {
    FiringRule rule;
    std::optional<FiringKind> found;
    for (int i = 0; i <= static_cast<int>(FiringKind::kBounded) && !found; ++i) {
      auto kind = static_cast<FiringKind>(i);
      if (accept_word(lexer_, to_string(kind))) found = kind;
    }
    if (!found) lexer_.fail("all, any, quorum or bounded");
    rule.kind = *found;
    expect_punct(lexer_, "(");
    rule.low = parse_int(lexer_, "a number");
    expect_punct(lexer_, ",");
    rule.high = parse_int(lexer_, "a number");
    expect_punct(lexer_, ")");
    return rule;
  }

  Lexer& lexer_;
  Program p_;
  Bodies bodies_;
  Labels slices_;
  Labels functions_;
  Labels labels_;
};

}  // namespace

Program parse_program(std::string_view text, const std::string& file) {
  GW_REQUIRE(text.size() <= kTextFormBytesMax, file, ": the text is too long: expected at most ",
             kTextFormBytesMax, " bytes, got ", text.size());
  Lexer lexer(text, file);
  Program program = ProgramParser(lexer).run();
  if (lexer.peek().kind != TokenKind::kEnd) lexer.fail("the end of the text");
  require_valid(program);
  return program;
}

}  // namespace gangway
