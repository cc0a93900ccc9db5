// Overlays and the texts on links, as they are drawn.
#include <gtest/gtest.h>

#include <set>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "tests/browser/browser.h"
#include "tests/browser/page_checks.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/tool/page_programs.h"

namespace gangway {
namespace {

using nlohmann::json;

class OverlaysTest : public testing::Test {
 protected:
  // The output of `gangway graph` for the program that was opened last.
  std::string graph(const std::vector<std::string>& options) {
    AnonymousFile said("graph");
    std::vector<std::string> arguments = {tests::gangway_tool(), "graph", folder_.path() / "p.gwp"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    ChildProcess tool({.arguments = arguments, .output_file = said.path()});
    EXPECT_TRUE(tool.wait().ok()) << said.text();
    return output_of(said);
  }

  void open(Browser& browser, const Program& program) {
    program.save(folder_.path() / "p.gwp");
    graph({"--html", folder_.path() / "p.html"});
    browser.open(folder_.path() / "p.html");
    browser.click("#expand");
  }

  static void choose(Browser& browser, const std::string& overlay) {
    browser.evaluate(cat("const choice = document.getElementById('overlay'); choice.value = '",
                         overlay,
                         "'; choice.dispatchEvent(new Event('change')); gangway.view.draw();"));
    ASSERT_EQ(browser.evaluate("return document.getElementById('overlay').value"), overlay);
  }

  TempDir folder_{"gangway_page"};
};

TEST_F(OverlaysTest, LinksSayTheirBytesAndTheCollectiveThatTheyBecome) {
  Browser browser({});
  open(browser, two_ways());
  const json ops = browser.evaluate(
      "return gangway.model.links.filter((link) => link.moves.length > 0)"
      "  .map((link) => `${link.from.label} to ${link.to.label}: ${link.moves[0].collectives}`)");
  // The product and the sum over rows; and x, whose columns the last product takes.
  EXPECT_EQ(std::set<std::string>(ops.begin(), ops.end()),
            (std::set<std::string>{"dot to state w: all_reduce",
                                   "reduce_sum to output y: all_reduce", "x to dot: all_to_all"}));
  const json bytes = browser.evaluate(
      "const mul = gangway.model.boxes.find((box) => box.label === 'mul');"
      "return mul.incoming.map((link) => link.bytes)");
  EXPECT_EQ(bytes, (json{256 * 256 * 4, 256 * 256 * 4}));
  // Neighbouring boxes with nothing between them have room for the text.
  browser.evaluate(
      "const { view, model } = gangway; view.scale = 1;"
      "view.show(model.boxes.find((box) => box.label === 'mul')); view.draw();");
  const json carried = browser.evaluate(
      "return [...document.querySelectorAll('.carried')].map((text) => text.textContent)");
  ASSERT_FALSE(carried.empty());
  EXPECT_EQ(carried[0], "256.0 KiB");
  EXPECT_EQ(browser.evaluate(kMisplacedLabels), json::array());
}

TEST_F(OverlaysTest, HostileNamesAreText) {
  const std::string image = "<img src=x onerror='window.ran = 1'>\x01\xe2\x80\xae";
  ProgramBuilder b("hostile", Mesh{{{"data", 2}}});
  Value x = b.input("x", f32({8, 8}), {{"data", shard(0)}});
  {
    const Builder::Scope scope(b.builder(), image);
    x = x * x;
  }
  b.output("y", x);
  Browser browser({});
  open(browser, b.build());
  choose(browser, "Scope");
  EXPECT_EQ(browser.evaluate("return document.getElementById('legend').textContent"),
            "<img src=x onerror='window.ran = 1'>\xe2\x90\x81\xef\xbf\xbd");
  EXPECT_EQ(browser.evaluate("return window.ran ?? 0"), 0);
  EXPECT_EQ(browser.evaluate("return document.images.length"), 0);
  EXPECT_EQ(browser.console(), json::array());
}

TEST_F(OverlaysTest, EachOverlayIsReadableAtBothSizesInLightAndDark) {
  for (const WindowSize size : {WindowSize{1280, 800}, WindowSize{2560, 1440}}) {
    Browser browser(size);
    open(browser, two_ways());
    for (const char* theme : {"light", "dark"}) {
      if (browser.evaluate("return document.documentElement.dataset.theme") != theme)
        browser.click("#theme");
      for (const char* overlay : {"Slice", "Device", "Memory", "Time", "Critical path"}) {
        SCOPED_TRACE(cat(size.width, " ", theme, " ", overlay));
        choose(browser, overlay);
        EXPECT_GT(browser.evaluate("return document.querySelectorAll('#legend li').length"), 0);
        EXPECT_GT(browser.evaluate(
                      "return document.querySelectorAll('[class*=heat], [class*=set]').length"),
                  5);
        EXPECT_EQ(browser.evaluate(kMisplacedLabels), json::array());
        EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
        EXPECT_EQ(browser.evaluate(kFaint), json::array());
      }
      browser.screenshot(cat("overlay_", size.width, "_", theme));
    }
    EXPECT_EQ(browser.console(), json::array());
  }
}

}  // namespace
}  // namespace gangway
