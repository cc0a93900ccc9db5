// The panel of training curves draws the document's values.
#include <gtest/gtest.h>

#include <fstream>

#include "gangway.h"
#include "ir/inspect/graphviz.h"
#include "tests/browser/browser.h"
#include "tests/browser/page_checks.h"
#include "tests/support/small_programs.h"
#include "tools/page/page.h"

namespace gangway {
namespace {

using nlohmann::json;

constexpr const char* kEnd = "\xee\x80\x90";
constexpr const char* kLeft = "\xee\x80\x92";
// Ends of the lines of the first chart, in its own coordinates, and where the points should be.
constexpr const char* kFarFromPoints = R"js(
const svg = document.querySelector('svg.chart');
const wrong = [];
gangway.curves.curves.forEach(({ points }, i) => {
  const d = svg.querySelectorAll('.line')[i].getAttribute('d').replaceAll('h0.01', '');
  const ends = d.split(/[ML]/).slice(1).map((end) => end.split(' ').map(Number));
  const known = points.filter(({ loss }) => loss !== null);
  if (ends.length !== known.length) wrong.push(`${ends.length} of ${known.length}`);
  known.forEach(({ step, loss }, at) => {
    const [x, y] = ends[at] ?? [NaN, NaN];
    const off = Math.hypot(x - svg.scales.toX(step), y - svg.scales.toY(loss));
    if (!(off < 0.2)) wrong.push(`${step}: ${off}`);
  });
});
return wrong;
)js";

// Texts of the charts that meet another one, or that leave the window.
constexpr const char* kMeetingTexts = R"js(
const all = [...document.querySelectorAll('svg.chart text, .series figcaption, .legend li')]
  .map((text) => [text.textContent, text.getBoundingClientRect()]);
const wrong = [];
all.forEach(([name, a], i) => {
  if (a.left < 0 || a.right > innerWidth || a.bottom > innerHeight) wrong.push(`${name} leaves`);
  for (const [other, b] of all.slice(i + 1)) {
    if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) {
      wrong.push(`${name} meets ${other}`);
    }
  }
});
return all.length > 10 ? wrong : ['nothing to look at'];
)js";

class CurvesTest : public testing::Test {
 protected:
  void open(Browser& browser) {
    const std::filesystem::path file = folder_.path() / "page.html";
    std::ofstream(file, std::ios::binary) << tool::page_html(tool::document_of(
        {{"program", to_json(accumulate(Mesh{{{"data", 2}}}))}, {"curves", curves_.dump()}}));
    browser.open(file);
  }

  static json curve(const std::string& name, int first, int last) {
    json points = json::array();
    for (int step = first; step <= last; ++step) {
      json loss = 1 + 100.0 / step;
      if (step == 57) loss = nullptr;
      points.push_back({{"step", step}, {"loss", loss}, {"tokens_per_s", 44'000 + 10 * step}});
    }
    return {{"name", name}, {"points", points}};
  }

  const json curves_ = {curve("<b>first</b>", 20, 200), curve("second", 50, 300)};
  TempDir folder_{"gangway_page"};
};

TEST_F(CurvesTest, DrawsThePointsOfTheDocumentAndSaysThemByKey) {
  Browser browser({});
  open(browser);
  EXPECT_EQ(browser.evaluate("return gangway.panels.open"), "Curves");
  EXPECT_EQ(browser.evaluate(kFarFromPoints), json::array());
  browser.evaluate("document.querySelector('.curves').focus()");
  browser.press(kEnd);
  const char* said = "return document.querySelector('.said-at-step').textContent";
  EXPECT_EQ(browser.evaluate(said), "Step 300: second loss 1.333, 47k tokens/s");
  browser.press(kLeft);
  EXPECT_EQ(browser.evaluate(said), "Step 299: second loss 1.334, 47k tokens/s");
  browser.evaluate("gangway.curves.goTo(100)");
  EXPECT_EQ(browser.evaluate(said),
            "Step 100: <b>first</b> loss 2, 45k tokens/s; second loss 2, 45k tokens/s");
  EXPECT_EQ(browser.console(), json::array());
}

// The pointer says the step that is nearest to it, in either chart, also across a gap.
TEST_F(CurvesTest, SaysTheStepUnderThePointer) {
  Browser browser({});
  open(browser);
  const char* said = "return document.querySelector('.said-at-step').textContent";
  EXPECT_EQ(browser.evaluate(said), "Point at a step, or go to one with the arrows.");
  const auto point = [&](int chart, double step) {
    const json at =
        browser.evaluate(cat("const svg = document.querySelectorAll('svg.chart')[", chart,
                             "]; const room = svg.getBoundingClientRect();"
                             "return [Math.round(room.left + svg.scales.toX(",
                             step, ")), Math.round(room.top + 60)];"));
    browser.point(at[0], at[1]);
    return browser.evaluate(said).get<std::string>();
  };
  EXPECT_EQ(point(0, 57),
            "Step 57: <b>first</b> loss -, 44.6k tokens/s; second loss -, 44.6k tokens/s");
  EXPECT_EQ(point(1, 250), "Step 250: second loss 1.4, 46.5k tokens/s");
  EXPECT_EQ(point(1, 20), "Step 20: <b>first</b> loss 6, 44.2k tokens/s");
  EXPECT_EQ(point(0, -10), "Step 20: <b>first</b> loss 6, 44.2k tokens/s");  // Left of points.
  // Both charts have a line at it.
  const json markers = browser.evaluate(
      "return [...document.querySelectorAll('svg.chart')].map((svg) => {"
      "  const x = Number(/^M([\\d.]+) /.exec(svg.querySelector('.marker').getAttribute('d'))[1]);"
      "  return Math.abs(x - svg.scales.toX(20)) < 0.1; });");
  EXPECT_EQ(markers, json({true, true}));
  EXPECT_EQ(browser.console(), json::array());
}

TEST_F(CurvesTest, IsReadableAtBothSizesInLightAndDark) {
  for (const WindowSize size : {WindowSize{1280, 800}, WindowSize{2560, 1440}}) {
    Browser browser(size);
    open(browser);
    for (const char* theme : {"light", "dark"}) {
      SCOPED_TRACE(cat(size.width, " ", theme));
      if (browser.evaluate("return document.documentElement.dataset.theme") != theme)
        browser.click("#theme");
      EXPECT_EQ(browser.evaluate(kMeetingTexts), json::array());
      EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
      EXPECT_EQ(browser.evaluate(kFaint), json::array());
      EXPECT_LT(browser.evaluate("return document.querySelectorAll('#panel *').length"), 300);
      browser.screenshot(cat("curves_", size.width, "_", theme));
    }
  }
}

}  // namespace
}  // namespace gangway
