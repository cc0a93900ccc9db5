// `gangway sim --html`: the schedule of a plan that has never run, as it is drawn.
#include <gtest/gtest.h>

#include <vector>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "tests/browser/browser.h"
#include "tests/browser/page_checks.h"
#include "tests/support/places.h"
#include "tests/support/small_programs.h"

namespace gangway::timeline_test {
namespace {

using nlohmann::json;

constexpr const char* kRight = "\xee\x80\x94";
constexpr const char* kDown = "\xee\x80\x95";

class TimelineTest : public testing::Test {
 protected:
  // Simulates the program, and opens the page that the simulation wrote.
  void open(Browser& browser, const Program& program, const std::vector<std::string>& options) {
    program.save(folder_.path() / "p.gwp");
    AnonymousFile said("sim");
    std::vector<std::string> arguments = {
        tests::gangway_tool(),    "sim", "--json", "--program", folder_.path() / "p.gwp", "--html",
        folder_.path() / "p.html"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    ChildProcess tool({.arguments = arguments, .output_file = said.path()});
    EXPECT_TRUE(tool.wait().ok()) << said.text();
    browser.open(folder_.path() / "p.html");
    browser.evaluate(
        "[...document.querySelectorAll('#tabs button')]"
        ".find((tab) => tab.textContent === 'Timeline').click();");
  }

  TempDir folder_{"gangway_page"};
};

// Products of 128 rows on each of 2 devices, which exchange nothing.
Program products() {
  ProgramBuilder b("products", Mesh{{{"data", 2}}});
  const Value w = b.input("w", f32({128, 128}));
  Value x = b.input("x", f32({256, 128}), {{"data", shard(0)}});
  for (int i = 0; i < 3; ++i) {
    const Builder::Scope scope(b.builder(), cat("layer.", i));
    x = tanh(dot(x, w));
  }
  b.output("y", x);
  return b.build();
}

const std::vector<std::string> kTwoDevices = {"--hosts", "1",      "--devices-per-host",
                                              "2",       "--runs", "3"};

TEST_F(TimelineTest, IdleTimeIsEmpty) {
  Browser browser({});
  open(browser, there_and_back(Mesh{{{"data", 1}}}), kTwoDevices);
  const json busy = browser.evaluate(
      "return gangway.spans.rows.filter((row) => row.kind === 'device').map((row) => row.busy)");
  ASSERT_EQ(busy.size(), 2u);
  for (const double part : busy) {
    EXPECT_GT(part, 0);
    EXPECT_LT(part, 0.9);
  }
  // Pixels of the page's own colour in the first device's row.
  EXPECT_GT(
      browser.evaluate("const { canvas } = gangway.spans;"
                       "const line = canvas.getContext('2d').getImageData(0, 10, canvas.width,"
                       "  1).data;"
                       "return line.filter((value, i) => i % 4 === 3 && value === 0).length"),
      10);
}

TEST_F(TimelineTest, SpansAndBoxesSelectEachOther) {
  Browser browser({});
  open(browser, products(), kTwoDevices);
  browser.evaluate("document.querySelector('.timeline canvas').focus()");
  browser.press(std::string(kDown) + kRight + kRight);
  const json selected = browser.evaluate(
      "const { selected, boxes } = gangway.spans; const box = boxes[selected.place];"
      "return [selected.name, box.label, box === gangway.view.selected,"
      "  document.querySelector('.span').textContent]");
  EXPECT_EQ(selected[0], selected[1]);
  EXPECT_EQ(selected[2], true);
  EXPECT_NE(
      selected[3].get<std::string>().find(cat(selected[0].get<std::string>(), " on host-0/0")),
      std::string::npos)
      << selected;
  EXPECT_NE(selected[3].get<std::string>().find("timeline_test.cc:"), std::string::npos);
  browser.evaluate(
      "window.wanted = gangway.model.boxes.find((box) => box.label === 'dot'"
      "  && box.data.scopes[0] === 'layer.2'); gangway.view.show(wanted);");
  EXPECT_EQ(browser.evaluate("return gangway.timeline.places[gangway.spans.selected.place].scopes"),
            json{"layer.2"});
  // A click in the middle of a span on the canvas.
  browser.evaluate(
      "const { canvas, rows, from, to } = gangway.spans;"
      "window.span = rows[0].spans.find((span) => span.name === 'dot');"
      "const { left, top, width } = canvas.getBoundingClientRect();"
      "const at = { clientX: left + ((span.begin + span.end) / 2 - from) / (to - from) * width,"
      "  clientY: top + 10, buttons: 1, bubbles: true };"
      "canvas.dispatchEvent(new PointerEvent('pointerdown', at));"
      "canvas.dispatchEvent(new PointerEvent('pointerup', at));");
  EXPECT_EQ(browser.evaluate("return gangway.spans.selected === span"), true);
}

TEST_F(TimelineTest, IsReadableAtBothSizesInLightAndDark) {
  for (const WindowSize size : {WindowSize{1280, 800}, WindowSize{2560, 1440}}) {
    Browser browser(size);
    open(browser, there_and_back(Mesh{{{"data", 2}}}), {"--hosts", "2", "--devices-per-host", "2"});
    for (const char* theme : {"light", "dark"}) {
      SCOPED_TRACE(cat(size.width, " ", theme));
      if (browser.evaluate("return document.documentElement.dataset.theme") != theme)
        browser.click("#theme");
      browser.evaluate("gangway.view.draw()");
      EXPECT_EQ(browser.evaluate(kMisplacedLabels), json::array());
      EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
      EXPECT_EQ(browser.evaluate(kFaint), json::array());
      browser.screenshot(cat("timeline_", size.width, "_", theme));
    }
    EXPECT_EQ(browser.console(), json::array());
  }
}

}  // namespace
}  // namespace gangway::timeline_test
