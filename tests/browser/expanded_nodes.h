// A program of many nodes, and a check that a fully expanded page shows the nodes of its JSON.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "gangway.h"
#include "tests/browser/browser.h"
#include "tests/browser/page_checks.h"

namespace gangway {

// `layers` scopes of `ops` additions each, one behind the other, on states "blocks.N.w".
inline Program deep(int layers, int ops) {
  ProgramBuilder b("deep", Mesh{{{"data", 2}}});
  Value x = b.input("x", f32({8}));
  for (int layer = 0; layer < layers; ++layer) {
    const Value w = b.state(cat("blocks.", layer, ".w"), zeros(f32({8})));
    const Builder::Scope scope(b.builder(), cat("layers.", layer));
    for (int op = 0; op < ops; ++op) x = x + w;
    b.update(w, x);
  }
  b.output("y", x);
  return b.build();
}

// Expects the program's nodes, of which there are more than 2,000, in the model and in the picture.
inline void expect_nodes_of(Browser& browser, const nlohmann::json& program) {
  using nlohmann::json;
  size_t ops = 0, parameters = 0;
  for (const json& function : program["functions"]) {
    ops += function["nodes"].size();
    parameters += function["parameters"].size();
  }
  ASSERT_GT(ops, 2000);
  const json seen = browser.evaluate(
      "const count = {}; for (const box of gangway.model.boxes) {"
      "  if (gangway.model.isVisible(box)) count[box.kind] = (count[box.kind] ?? 0) + 1; }"
      "return count;");
  EXPECT_EQ(seen["op"], ops);
  EXPECT_EQ(seen["parameter"], parameters);
  EXPECT_EQ(seen["node"], program["nodes"].size());
  EXPECT_EQ(seen["slice"], program["slices"].size());
  // Boxes are compared by number, op and types. Each value that is read is one link.
  const json boxes = browser.evaluate(
      "return gangway.model.boxes.filter((box) => box.kind === 'op')"
      "  .map((box) => [box.data.id, box.label, box.data.results, box.incoming.length]);");
  std::map<std::string, int> of_json, of_page;
  for (const json& function : program["functions"]) {
    for (const json& node : function["nodes"])
      ++of_json[json{node["id"], node["op"], node["results"], node["inputs"].size()}.dump()];
  }
  for (const json& box : boxes) ++of_page[box.dump()];
  EXPECT_EQ(of_page, of_json);
  // The view draws all boxes inside it, each with its name.
  for (const char* look : {"view.scale = 1; view.moveTo(10, 10)", "view.show(model.boxes.at(-700))",
                           "view.show(model.boxes.at(700))"}) {
    SCOPED_TRACE(look);
    browser.evaluate(cat("const { view, model } = gangway; ", look, "; view.draw();"));
    const json drawn = browser.evaluate(kDrawn);
    EXPECT_GT(drawn["labels"], 10);
    EXPECT_EQ(drawn["wrong"], json::array());
    EXPECT_EQ(browser.evaluate(kMisplacedLabels), json::array());
  }
}

}  // namespace gangway
