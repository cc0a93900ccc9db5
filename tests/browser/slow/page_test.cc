// The picture of a program after random navigation, with names that another user chose, at all
// sizes, and of a program of 50,000 nodes.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <random>

#include "gangway.h"
#include "ir/inspect/graphviz.h"
#include "tests/browser/browser.h"
#include "tests/browser/expanded_nodes.h"
#include "tests/browser/page_checks.h"
#include "tests/support/places.h"
#include "tests/support/seed.h"
#include "tools/page/page.h"

namespace gangway {
namespace {

using nlohmann::json;

// A program with the scopes of deep(), all of whose ops read the same value.
Program wide(int layers, int ops) {
  ProgramBuilder b("wide", Mesh{{{"data", 2}}});
  Value x = b.input("x", f32({8}));
  for (int layer = 0; layer < layers; ++layer) {
    const Builder::Scope scope(b.builder(), cat("layers.", layer));
    Value last = x;
    for (int op = 0; op < ops; ++op) last = x + x;
    x = last;
  }
  b.output("y", x);
  return b.build();
}

class PageTest : public ::testing::Test {
 protected:
  // The page in a browser; its JSON stays in json_.
  void open(Browser& browser, const std::string& text) {
    json_ = json::parse(text);
    const std::filesystem::path file = folder_.path() / "page.html";
    std::ofstream(file, std::ios::binary) << tool::page_html(tool::program_document(text));
    browser.open(file);
  }

  TempDir folder_{"gangway_page"};
  json json_;
};

// The page reuses elements of boxes that leave the view for boxes that enter it: each must show its
// present box.
TEST_F(PageTest, EveryBoxIsDrawnRightAfterAnySequenceOfMoves) {
  Browser browser({});
  open(browser, to_json(deep(40, 20)));
  std::mt19937 random(tests::test_seed());
  const auto below = [&](int limit) { return static_cast<int>(random() % unsigned(limit)); };
  int labels = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string box = cat("model.boxes[", below(1 << 20), " % model.boxes.length]");
    const std::vector<std::string> ways = {
        cat("view.show(", box, ")"),
        cat("view.toggle(", box, ")"),
        cat("view.moveTo(view.x + ", below(1200) - 600, ", view.y + ", below(800) - 400, ")"),
        cat("view.scale = Math.max(0.7, view.scale * ", 0.7 + 0.1 * below(8), ")"),
        cat("view.select(view.visible(", box, "))"),
    };
    const std::string way = ways[size_t(below(static_cast<int>(ways.size())))];
    SCOPED_TRACE(cat(i, ": ", way));
    browser.evaluate(cat("const { view, model } = gangway; ", way, "; view.draw();"));
    const json drawn = browser.evaluate(kDrawn);
    ASSERT_EQ(drawn["wrong"], json::array());
    labels += drawn["labels"].get<int>();
  }
  EXPECT_GT(labels, 500);
  EXPECT_EQ(browser.console(), json::array());
}

TEST_F(PageTest, HostileNamesAreText) {
  const std::string script = "</script><script>window.ran = 1</script>";
  const std::string image = "<img src=x onerror='window.ran = 1'>";
  ProgramBuilder b(script);
  Value x = b.input(image, f32({4}));
  {
    const Builder::Scope scope(b.builder(), "<!--<script>\x01\xe2\x80\xae");
    x = x + x;
  }
  b.output("y", x);
  json program = json::parse(to_json(b.build()));
  program["nodes"].back()["name"] = std::string(1 << 20, 'w');  // No builder lets it pass.
  Browser browser({});
  open(browser, program.dump());
  browser.click("#expand");
  for (const char* wanted : {"<img", "<!--", "wwww"}) {
    browser.evaluate(cat("gangway.search.find('", wanted, "'); gangway.search.choose(0);"));
    const std::string title =
        browser.evaluate("return document.querySelector('#details h2').textContent");
    EXPECT_NE(title.find(wanted), title.npos) << title;
  }
  EXPECT_EQ(browser.evaluate("return gangway.model.root.label"), script);
  EXPECT_EQ(browser.evaluate("return document.title"), script + " - Gangway");
  const std::string scope =
      browser.evaluate("return gangway.model.boxes.find((box) => box.kind === 'scope').label");
  EXPECT_EQ(scope, "<!--<script>\xe2\x90\x81\xef\xbf\xbd");
  EXPECT_EQ(browser.evaluate("return window.ran ?? 0"), 0);
  EXPECT_EQ(browser.evaluate("return document.images.length"), 0);
  EXPECT_EQ(browser.evaluate("return document.scripts.length"), 2);
  EXPECT_EQ(browser.evaluate(kMisplacedLabels), json::array());
  EXPECT_EQ(browser.console(), json::array());
}

TEST_F(PageTest, IsReadableAtBothSizesInLightAndDark) {
  const std::string program = to_json(deep(40, 60));  // More than 2,000 nodes.
  for (const WindowSize size : {WindowSize{1280, 800}, WindowSize{2560, 1440}}) {
    Browser browser(size);
    open(browser, program);
    browser.click("#expand");
    for (const char* theme : {"light", "dark"}) {
      SCOPED_TRACE(cat(size.width, " ", theme));
      if (browser.evaluate("return document.documentElement.dataset.theme") != theme)
        browser.click("#theme");
      ASSERT_EQ(browser.evaluate("return document.documentElement.dataset.theme"), theme);
      // Shows a box in the middle at readable size; then, if there is room, all boxes.
      for (const char* look : {"gangway.view.show(gangway.model.boxes.at(-20))",
                               "gangway.view.scale = 1; gangway.view.moveTo(10, 10)",
                               "gangway.search.find('layers')"}) {
        SCOPED_TRACE(look);
        browser.evaluate(cat(look, "; gangway.view.draw();"));
        EXPECT_EQ(browser.evaluate("return innerWidth"), size.width);
        EXPECT_GT(browser.evaluate("return document.querySelectorAll('.label').length"), 5);
        EXPECT_EQ(browser.evaluate(kMisplacedLabels), json::array());
        EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
        EXPECT_EQ(browser.evaluate(kFaint), json::array());
      }
      browser.evaluate("gangway.search.close(); gangway.view.draw();");
      browser.screenshot(cat("page_", size.width, "_", theme));
    }
    EXPECT_EQ(browser.console(), json::array());
  }
}

// Times are printed, not asserted, since they depend on the machine.
TEST_F(PageTest, FiftyThousandNodesAreThreeThousandElements) {
  const std::string program = to_json(wide(500, 100));
  int most = 0;
  for (const WindowSize size : {WindowSize{1280, 800}, WindowSize{2560, 1440}}) {
    Browser browser(size);
    open(browser, program);
    size_t ops = 0;
    for (const json& function : json_["functions"]) ops += function["nodes"].size();
    ASSERT_GE(ops, 50'000);
    const double open_ms = browser.evaluate("return gangway.drawnAt");
    const json looks = browser.evaluate(kManyLooks);
    for (const int elements : looks["elements"]) {
      EXPECT_LE(elements, 3000);
      most = std::max(most, elements);
    }
    std::vector<double> ms = looks["ms"];
    std::ranges::sort(ms);
    std::cout << size.width << "x" << size.height << ": first picture after " << open_ms
              << " ms; expand all " << looks["expand_ms"] << " ms; " << ms.size()
              << " interactions: half within " << ms[ms.size() / 2] << " ms, 95 % within "
              << ms[ms.size() * 95 / 100] << " ms, all within " << ms.back() << " ms\n";
    browser.screenshot(cat("page_50000_", size.width));
    EXPECT_EQ(browser.console(), json::array());
  }
  EXPECT_GT(most, 2000);  // The view was as full as the page lets it be.
}

}  // namespace
}  // namespace gangway
