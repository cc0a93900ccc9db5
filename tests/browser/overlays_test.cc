// Overlays, what links carry, and the reasons, against what the tool says as text.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "tests/browser/browser.h"
#include "tests/browser/page_checks.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using nlohmann::json;

class OverlaysTest : public testing::Test {
 protected:
  // What the tool prints of the program that was opened last.
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

// Two ways from x to y: four products of 256 rows, and one addition. Rows of x lie on 2 devices.
Program two_ways() {
  ProgramBuilder b("two ways", Mesh{{{"data", 2}}});
  const Value w = b.state("w", zeros(f32({256, 256})));
  const Value x = b.input("x", f32({256, 256}), {{"data", shard(0)}});
  Value heavy = x;
  for (int i = 0; i < 4; ++i) {
    const Builder::Scope scope(b.builder(), cat("heavy.", i));
    heavy = dot(heavy, w);
  }
  Value light;
  {
    const Builder::Scope scope(b.builder(), "light");
    light = x + x;
  }
  const Value y = heavy * light;
  b.update(w, dot(x, y));
  b.output("y", sum(y, {0, 1}));
  return b.build();
}

TEST_F(OverlaysTest, ReasonsAreThoseOfTheTool) {
  Browser browser({});
  open(browser, two_ways());
  const json reasons = browser.evaluate(
      "return gangway.model.boxes.filter((box) => box.laid).map((box) => box.laid.why)");
  ASSERT_GT(reasons.size(), 8u);
  for (size_t i = 0; i < reasons.size(); i += 3) {
    const std::string reason = reasons[i];
    // "%4 of @main: ..."
    const std::string value = reason.substr(0, reason.find(' '));
    const std::string function =
        reason.substr(reason.find('@'), reason.find(':') - value.size() - 4);
    EXPECT_EQ(reason, graph({"--why", cat(function, ".", value)}));
  }
  browser.evaluate("gangway.view.show(gangway.model.boxes.find((box) => box.label === 'mul'));");
  const std::string details =
      browser.evaluate("return document.getElementById('details').textContent");
  EXPECT_NE(details.find("liesshard(0)"), details.npos) << details;
  EXPECT_NE(details.find("is shard(0) on data"), details.npos) << details;
  EXPECT_EQ(browser.console(), json::array());
}

TEST_F(OverlaysTest, LinksSayTheirBytesAndTheCollectiveThatTheyBecome) {
  Browser browser({});
  open(browser, two_ways());
  const json ops = browser.evaluate(
      "return gangway.model.links.filter((link) => link.moves.length > 0)"
      "  .map((link) => `${link.from.label} to ${link.to.label}: ${link.moves[0].collectives}`)");
  // The product and the sum over rows; and x, of which the last product takes columns.
  EXPECT_EQ(std::set<std::string>(ops.begin(), ops.end()),
            (std::set<std::string>{"dot to state w: all_reduce",
                                   "reduce_sum to output y: all_reduce", "x to dot: all_to_all"}));
  const json bytes = browser.evaluate(
      "const mul = gangway.model.boxes.find((box) => box.label === 'mul');"
      "return mul.incoming.map((link) => link.bytes)");
  EXPECT_EQ(bytes, (json{256 * 256 * 4, 256 * 256 * 4}));
  // Beside each other and with nothing between, there is room to say it.
  browser.evaluate(
      "const { view, model } = gangway; view.scale = 1;"
      "view.show(model.boxes.find((box) => box.label === 'mul')); view.draw();");
  const json carried = browser.evaluate(
      "return [...document.querySelectorAll('.carried')].map((text) => text.textContent)");
  ASSERT_FALSE(carried.empty());
  EXPECT_EQ(carried[0], "256.0 KiB");
  EXPECT_EQ(browser.evaluate(kMisplacedLabels), json::array());
}

TEST_F(OverlaysTest, TheCriticalPathIsTheHeavierWay) {
  Browser browser({});
  open(browser, two_ways());
  choose(browser, "Critical path");
  const json of_scopes = browser.evaluate(
      "const { critical } = gangway.view.overlay; const found = {};"
      "for (const box of gangway.model.boxes.filter((box) => box.kind === 'scope'))"
      "  found[box.label] = critical.has(box);"
      "return found;");
  EXPECT_EQ(of_scopes, (json{{"heavy.0", true},
                             {"heavy.1", true},
                             {"heavy.2", true},
                             {"heavy.3", true},
                             {"light", false}}));
  // Its time is that of its boxes, by the rates and costs of the document.
  const json times = browser.evaluate(
      "const { rates } = gangway.layout; const box = gangway.model.boxes.find("
      "  (box) => box.label === 'dot' && box.data.scopes[0] === 'heavy.1');"
      "return [gangway.view.overlay.textOf(box), rates.launch_ns / 1e9"
      "  + Math.max(2 * 256 ** 3 / 2 / rates.flops_per_s,"
      "             3 * 256 * 256 * 4 / 2 / rates.memory_bytes_per_s)];");
  char expected[32];
  std::snprintf(expected, sizeof expected, "yes, %.1f us", times[1].get<double>() * 1e6);
  EXPECT_EQ(times[0], expected);
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

TEST_F(OverlaysTest, EachIsReadableAtBothSizesInLightAndDark) {
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
