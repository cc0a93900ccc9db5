// The panel "Device" and the minimap, by key and by pointer.
#include <gtest/gtest.h>

#include <vector>

#include "gangway.h"
#include "tests/browser/browser.h"
#include "tests/browser/page_checks.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway::device_plan_test {
namespace {

using nlohmann::json;

constexpr const char* kEnd = "\xee\x80\x90";
constexpr const char* kHome = "\xee\x80\x91";
constexpr const char* kOpenPanel =
    "[...document.querySelectorAll('#tabs button')]"
    ".find((tab) => tab.textContent === 'Device').click();";
constexpr const char* kSteps =
    "return [...document.querySelectorAll('.steps [role=option]')].map((at) => at.textContent)";

class DevicePlanTest : public testing::Test {
 protected:
  void open(Browser& browser, const Program& program) {
    const std::string file = folder_.path() / "p.gwp", page = folder_.path() / "p.html";
    program.save(file);
    AnonymousFile said("graph");
    ChildProcess tool({.arguments = {tests::gangway_tool(), "graph", file, "--html", page},
                       .output_file = said.path()});
    EXPECT_TRUE(tool.wait().ok()) << said.text();
    browser.open(page);
    browser.evaluate(kOpenPanel);
  }

  TempDir folder_{"gangway_page"};
};

// 40 steps of a scan over rows, and a sum over the mesh.
Program looped() {
  ProgramBuilder b("looped", Mesh{{{"data", 2}}});
  const Value w = b.state("w", zeros(f32({64, 64})));
  const Value x = b.input("x", f32({64, 64}), {{"data", shard(0)}});
  Value next = w;
  for (int i = 0; i < 40; ++i) {
    const Builder::Scope scope(b.builder(), cat("layer.", i));
    next = tanh(dot(x, next));
  }
  b.update(w, dot(x, next));
  b.output("sum", sum(next, {0, 1}));
  return b.build();
}

TEST_F(DevicePlanTest, StepsAndBoxesSelectEachOther) {
  Browser browser({});
  open(browser, looped());
  browser.evaluate("document.querySelector('.steps').focus()");
  browser.press(kEnd);
  const int last = browser.evaluate("return gangway.devicePlan.at");
  EXPECT_GT(last, 80);
  EXPECT_EQ(browser.evaluate("return gangway.devicePlan.steps.length - 1"), last);
  EXPECT_EQ(browser.evaluate("return document.querySelector('[aria-selected=true][role=option]')"
                             ".textContent.trim().startsWith(`${gangway.devicePlan.at}  `)"),
            true);
  browser.press(kHome);
  EXPECT_EQ(browser.evaluate("return gangway.view.selected.kind"), "node");
  // A box, and back from the step that it selects.
  browser.evaluate(
      "window.wanted = gangway.model.boxes.find((box) => box.label === 'tanh'"
      "  && box.data.scopes.includes('layer.33'));"
      "gangway.view.show(wanted);");
  EXPECT_EQ(browser.evaluate("const at = gangway.devicePlan; return at.box().id"),
            browser.evaluate("return wanted.id"));
  EXPECT_LT(browser.evaluate("return document.querySelectorAll('.steps [role=option]').length"),
            40);
}

TEST_F(DevicePlanTest, IsReadableAtBothSizesInLightAndDark) {
  for (const WindowSize size : {WindowSize{1280, 800}, WindowSize{2560, 1440}}) {
    Browser browser(size);
    open(browser, looped());
    for (const char* theme : {"light", "dark"}) {
      SCOPED_TRACE(cat(size.width, " ", theme));
      if (browser.evaluate("return document.documentElement.dataset.theme") != theme)
        browser.click("#theme");
      browser.evaluate("gangway.view.draw()");
      EXPECT_GT(browser.evaluate(kSteps).size(), 10u);
      EXPECT_EQ(browser.evaluate(kMisplacedLabels), json::array());
      EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
      EXPECT_EQ(browser.evaluate(kFaint), json::array());
      browser.screenshot(cat("device_", size.width, "_", theme));
    }
    EXPECT_EQ(browser.console(), json::array());
  }
}

TEST_F(DevicePlanTest, AClickOnTheMinimapMovesTheWindowThere) {
  Browser browser({});
  open(browser, looped());
  browser.click("#expand");
  browser.evaluate("gangway.view.scale = 1; gangway.view.moveTo(0, 0); gangway.view.draw();");
  browser.click("#minimap");  // Clicks its middle.
  const json off = browser.evaluate(
      "const { view, model } = gangway; view.draw();"
      "const { left, top, right, bottom } = view.window;"
      "return [left + right - model.root.width, top + bottom - model.root.height]"
      "  .map((twice) => twice / 2 * gangway.minimap.scale);");
  EXPECT_NEAR(off[0], 0, 1);  // Pixels of the map.
  EXPECT_NEAR(off[1], 0, 1);
  // It shows boxes: not all of it has one colour.
  EXPECT_GT(browser.evaluate("const { layer } = gangway.minimap;"
                             "const all = layer.getContext('2d').getImageData(0, 0, layer.width,"
                             "  layer.height).data;"
                             "return new Set(new Uint32Array(all.buffer)).size"),
            3);
}

}  // namespace
}  // namespace gangway::device_plan_test
