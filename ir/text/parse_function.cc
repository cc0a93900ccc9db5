#include <utility>

#include "ir/text/parse_internal.h"
#include "ir/types/limits.h"
#include "runtime/base/quote.h"

namespace gangway::internal {
namespace {

class FunctionParser {
 public:
  FunctionParser(Lexer& lexer, const Bodies& bodies, int depth)
      : lexer_(lexer), bodies_(bodies), depth_(depth) {}

  Function run() {
    f_.local = accept_word(lexer_, "local");
    expect_word(lexer_, "func");
    f_.name = lexer_.expect(TokenKind::kFunction, "a function's name (@name)");
    expect_punct(lexer_, "(");
    parse_list(lexer_, ")", [this] { parse_parameter(); });
    if (accept_word(lexer_, "mesh")) f_.mesh = parse_mesh(lexer_);
    expect_punct(lexer_, "{");
    while (!at_word(lexer_, "return")) {
      if (at_word(lexer_, "region")) {
        parse_region();
      } else {
        parse_node(0);
      }
    }
    parse_return();
    expect_punct(lexer_, "}");
    if (has_shardings_) resolve_shardings();
    return std::move(f_);
  }

 private:
  void parse_parameter() {
    if (f_.parameters.size() == kParametersMax) lexer_.fail("fewer parameters");
    parse_label(lexer_, labels_, f_.value_count());
    Parameter parameter{lexer_.expect(TokenKind::kString, "the parameter's name in quotes"), {}};
    expect_punct(lexer_, ":");
    f_.types.push_back(parse_type(lexer_));
    if (at_punct(lexer_, "{")) parameter.placements = parse_placements(lexer_);
    if (accept_word(lexer_, "priorities")) parse_priorities(parameter);
    parse_sharding();
    f_.parameters.push_back(std::move(parameter));
  }

  void parse_priorities(Parameter& parameter) {
    expect_punct(lexer_, "[");
    parse_list(lexer_, "]", [&] {
      if (parameter.priorities.size() == kMeshAxesMax) lexer_.fail("fewer priorities");
      const int64_t priority = parse_int_at_most(lexer_, "a priority", kAnnotationPriorityMax);
      parameter.priorities.push_back(static_cast<int>(priority));
    });
  }

  // The mesh stands behind the parameters, so shardings are resolved at the end.
  void parse_sharding() {
    Written written{.token = lexer_.peek(), .given = accept_word(lexer_, "over")};
    if (written.given) written.placements = parse_placements(lexer_);
    has_shardings_ = has_shardings_ || written.given;
    shardings_.push_back(std::move(written));
  }

  void resolve_shardings() {
    for (const Written& written : shardings_) {
      if (!written.given) {
        lexer_.fail_at(written.token, "expected \"over\" and a sharding, as other values have one");
      }
      try {
        f_.shardings.push_back(resolve(f_.mesh, written.placements));
      } catch (const Error& error) {
        lexer_.fail_at(written.token, error.message());
      }
    }
  }

  void parse_region() {
    expect_word(lexer_, "region");
    auto region = static_cast<uint32_t>(parse_int_at_most(lexer_, "a region", kNodesMax));
    expect_punct(lexer_, "{");
    while (!accept_punct(lexer_, "}")) parse_node(region);
  }

  void parse_node(uint32_t region) {
    if (f_.nodes.size() == kNodesMax) lexer_.fail("fewer nodes");
    Token first = lexer_.peek();
    Node node{.first_result = f_.value_count(), .region = region};
    // Results get their names after the operands were read, so that no node reads its own.
    Labels results;
    do {
      if (f_.types.size() == kValuesMax) lexer_.fail("fewer values");
      parse_result(results);
    } while (accept_punct(lexer_, ","));
    node.results = f_.value_count() - node.first_result;
    expect_punct(lexer_, "=");
    node.op = parse_op_name();
    parse_operands(node);
    if (at_punct(lexer_, "{")) node.attrs = parse_attrs(lexer_);
    fill_defaults(node.op, node.attrs);
    if (accept_word(lexer_, "body")) parse_body(node);
    labels_.merge(results);
    f_.nodes.push_back(std::move(node));
    f_.infos.push_back({.loc = line_entry(first.line)});
  }

  void parse_result(Labels& results) {
    Token token = lexer_.peek();
    if (labels_.contains(token.text) && token.kind == TokenKind::kValue) {
      lexer_.fail_at(token, cat("%", token.text, " is defined twice"));
    }
    parse_label(lexer_, results, f_.value_count());
    expect_punct(lexer_, ":");
    f_.types.push_back(parse_type(lexer_));
    parse_sharding();
  }

  Op parse_op_name() {
    Token token = lexer_.peek();
    std::string name = lexer_.expect(TokenKind::kWord, "an op");
    auto op = gangway::parse_op(name);
    if (!op) lexer_.fail_at(token, cat("unknown op ", quote(name)));
    return *op;
  }

  void parse_operands(Node& node) {
    if (lexer_.peek().kind != TokenKind::kValue) return;
    if (row(node.op).inputs_min == 0) {
      Lexer ahead = lexer_;
      ahead.take();
      if (at_punct(ahead, ":")) return;  // Begins the next node.
    }
    do node.inputs.push_back(parse_reference(lexer_, labels_, "value"));
    while (node.inputs.size() <= kInputsMax && accept_punct(lexer_, ","));
  }

  // A number, of a body that stands before; or the body itself.
  void parse_body(Node& node) {
    if (lexer_.peek().kind == TokenKind::kInt) {
      const Token token = lexer_.take();
      const auto at = bodies_.labels.find(token.text);
      if (at == bodies_.labels.end()) {
        lexer_.fail_at(token, cat("expected a body that stands before, got ", token.text));
      }
      node.body = bodies_.functions[at->second];
      return;
    }
    if (depth_ == kBodyDepthMax) lexer_.fail(cat("at most ", kBodyDepthMax, " nested bodies"));
    node.body = std::make_shared<Function>(parse_function_body(lexer_, bodies_, depth_ + 1));
  }

  void parse_return() {
    expect_word(lexer_, "return");
    if (at_punct(lexer_, "}")) return;
    do {
      if (f_.results.size() == kResultsMax) lexer_.fail("fewer results");
      f_.results.push_back(parse_reference(lexer_, labels_, "value"));
      f_.result_names.push_back(lexer_.expect(TokenKind::kString, "the result's name in quotes"));
    } while (accept_punct(lexer_, ","));
  }

  uint32_t line_entry(int line) {
    if (f_.locs.size() == kLocsMax) return kNone;
    if (f_.locs.empty() || f_.locs.back().line != line) {
      f_.locs.push_back({.file = lexer_.file(), .line = line});
    }
    return static_cast<uint32_t>(f_.locs.size() - 1);
  }

  // The sharding behind a value's type, or the token where one could have been.
  struct Written {
    AxisPlacements placements;
    Token token;
    bool given = false;
  };

  Lexer& lexer_;
  const Bodies& bodies_;
  int depth_;
  Function f_;
  Labels labels_;
  std::vector<Written> shardings_;  // Indexed by value.
  bool has_shardings_ = false;
};

}  // namespace

Function parse_function_body(Lexer& lexer, const Bodies& bodies, int depth) {
  return FunctionParser(lexer, bodies, depth).run();
}

void parse_bodies(Lexer& lexer, Bodies& bodies) {
  while (accept_word(lexer, "body")) {
    if (bodies.functions.size() == kBodiesMax) lexer.fail("fewer bodies");
    const Token token = lexer.peek();
    const std::string number = lexer.expect(TokenKind::kInt, "a body's number");
    auto body = std::make_shared<const Function>(parse_function_body(lexer, bodies, 1));
    if (bodies.sizes.of(*body).depth >= kBodyDepthMax)
      lexer.fail_at(token, cat("expected at most ", kBodyDepthMax, " nested bodies"));
    if (!bodies.labels.emplace(number, static_cast<uint32_t>(bodies.functions.size())).second)
      lexer.fail_at(token, cat("body ", number, " is defined twice"));
    bodies.functions.push_back(std::move(body));
  }
}

}  // namespace gangway::internal
