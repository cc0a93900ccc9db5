// Names that another user chose, in the panels of a page: they are shown as text, and break
// nothing.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "tests/browser/browser.h"
#include "tests/browser/page_checks.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"
#include "tests/support/small_programs.h"
#include "tools/page/page.h"

namespace gangway {
namespace {

using nlohmann::json;

const std::string kHostile[] = {
    "</script><script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    std::string("\x01\x1b[31m\r\n\t\x7f", 9) + "<!--<script>",
    "\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8b"
    "desrever\xef\xbb\xbf\xc2\x85",  // Turns text around.
    "'\"><svg onload=window.ran=1>${window.ran = 1}{{7*7}}&lt;b&gt;",
};

// Puts a hostile name before every name of a document; the first one has a megabyte.
class Spoiler {
 public:
  void spoil(json& at, const std::string& key = "") {
    if (at.is_string() && is_name(key)) {
      std::string name = kHostile[count_ % std::size(kHostile)] + at.get<std::string>();
      if (count_ < 8) name += std::string(1 << 20, "wW"[count_ % 2]);
      at = name;
      ++count_;
    }
    if (at.is_object()) {
      for (auto& [name, value] : at.items()) spoil(value, name);
    }
    if (at.is_array()) {
      for (json& value : at) spoil(value, key);
    }
  }

  int count() const { return count_; }

 private:
  static bool is_name(const std::string& key) {
    for (const char* name : {"name", "hosts", "line", "scopes", "text", "why", "op", "types"})
      if (key == name) return true;
    return false;
  }

  int count_ = 0;
};

// Effects of hostile names on the page, wherever the names are.
constexpr const char* kBroken = R"js(
const wrong = [];
if (window.ran) wrong.push('a name ran');
if (document.images.length > 0) wrong.push('a name is an image');
if (document.scripts.length !== 2) wrong.push('a name is a script');
for (const part of document.querySelectorAll('#panel *, #details *, #legend *, header *')) {
  if (part.tagName === 'B' && !part.closest('.legend, .host')) wrong.push('a name is bold');
}
const textOf = (part) => document.querySelector(part).textContent;
const all = textOf('#panel') + textOf('header');
const control = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/;
const unseen = /[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/;
if (control.test(all) || unseen.test(all)) wrong.push('a control character is shown');
if (all.length > 200000) wrong.push(`${all.length} letters`);
const panel = document.getElementById('panel');
if (panel.scrollWidth > panel.clientWidth + 1) wrong.push('the panel is wide');
return wrong;
)js";

class HostilePanelsTest : public testing::Test {
 protected:
  // The document that `gangway sim --html` writes of a program, with a training.
  json document() {
    const std::string program = folder_.path() / "p.gwp", page = folder_.path() / "p.html";
    accumulate(Mesh{{{"data", 2}}}).save(program);
    AnonymousFile said("sim");
    ChildProcess tool(
        {.arguments = {tests::gangway_tool(), "sim", "--program", program, "--html", page},
         .output_file = said.path()});
    EXPECT_TRUE(tool.wait().ok()) << output_of(said);
    std::ifstream file(page);
    const std::string html((std::istreambuf_iterator<char>(file)), {});
    const std::string mark = "id=\"document\">";
    const size_t from = html.find(mark) + mark.size();
    json document = json::parse(html.substr(from, html.find("</script>", from) - from));
    for (const char* name : {"first", "second"}) {
      document["curves"].push_back({{"name", name},
                                    {"points",
                                     {{{"step", 1}, {"loss", 2.5}, {"tokens_per_s", 10}},
                                      {{"step", 2}, {"loss", 1.5}, {"tokens_per_s", 20}}}}});
    }
    return document;
  }

  TempDir folder_{"gangway_page"};
};

TEST_F(HostilePanelsTest, TimelineDevicePlanAndCurvesShowNamesAsText) {
  json all = document();
  Spoiler spoiler;
  spoiler.spoil(all["curves"]);
  spoiler.spoil(all["timeline"]["rows"]);
  spoiler.spoil(all["timeline"]["places"]);
  for (json& span : all["timeline"]["spans"]) spoiler.spoil(span[3], "name");
  spoiler.spoil(all["plan"]);
  spoiler.spoil(all["program"]);
  spoiler.spoil(all["layout"]);
  ASSERT_GT(spoiler.count(), 40);
  const std::string page = folder_.path() / "hostile.html";
  std::ofstream(page, std::ios::binary) << tool::page_html(all.dump());
  for (const WindowSize size : {WindowSize{1280, 800}, WindowSize{2560, 1440}}) {
    Browser browser(size);
    browser.open(page);
    browser.click("#expand");
    for (const char* panel : {"Curves", "Device", "Timeline"}) {
      SCOPED_TRACE(cat(size.width, " ", panel));
      browser.evaluate(cat("gangway.panels.choose('", panel, "')"));
      // Selects each span and each step once, which shows its details.
      browser.evaluate(
          "if (gangway.panels.open === 'Curves') gangway.curves.goTo(2);"
          "gangway.model.boxes.forEach((box) => { if (box.kind === 'op') gangway.view.select(box); "
          "});"
          "gangway.view.draw();");
      EXPECT_EQ(browser.evaluate(kBroken), json::array());
      EXPECT_EQ(browser.evaluate(kOverflowing), json::array());
      EXPECT_EQ(browser.evaluate(kMisplacedLabels), json::array());
      browser.screenshot(cat("hostile_", panel, "_", size.width));
    }
    const json overlays = browser.evaluate(
        "return [...document.querySelectorAll('#overlay option')].map((option) => option.value)");
    for (const json& overlay : overlays) {
      SCOPED_TRACE(overlay);
      browser.evaluate(cat("gangway.overlays.choose(", overlay.dump(), "); gangway.view.draw();"));
      EXPECT_EQ(browser.evaluate(kBroken), json::array());
    }
    EXPECT_GE(overlays.size(), 6u);
    EXPECT_EQ(browser.console(), json::array());
  }
}

}  // namespace
}  // namespace gangway
