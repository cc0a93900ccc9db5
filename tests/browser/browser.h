// A headless Chromium that a test drives over WebDriver: chromedriver on a free port of loopback.
//
// Threads: the one that made it.
// Ownership: both processes, and the browser's own folder, end with the handle.
// Errors: an Error with WebDriver's answer, or if it does not answer in a minute.
#pragma once

#include <kj/async-io.h>
#include <kj/compat/http.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"

namespace gangway {

struct WindowSize {
  int width = 1280, height = 800;
};

class Browser {
 public:
  explicit Browser(WindowSize size);
  ~Browser();
  Browser(const Browser&) = delete;

  // Returns when the page is loaded and its modules have run.
  void open(const std::string& file);
  void go(const std::string& address);
  // The value that a function body returns.
  nlohmann::json evaluate(const std::string& body);
  // Sends keys to the focused element. WebDriver has letters for special keys: "\ue007" is Enter.
  void press(const std::string& keys);
  void click(const std::string& selector);
  // Moves the pointer to a position in the window, in pixels.
  void point(int x, int y);
  // The console's messages since the last call, including errors of the page's own policy.
  nlohmann::json console();
  // A command of Chromium's DevTools protocol.
  nlohmann::json devtools(const std::string& command, const nlohmann::json& parameters);
  // Writes a screenshot into the build folder.
  void screenshot(const std::string& name);

 private:
  void start_session(WindowSize size);
  nlohmann::json ask(kj::HttpMethod method, const std::string& path, const nlohmann::json& body);

  AnonymousFile log_{"chromedriver"};
  TempDir folder_{"gangway_browser"};
  ChildProcess driver_;
  kj::AsyncIoContext io_ = kj::setupAsyncIo();
  kj::HttpHeaderTable headers_;
  kj::Own<kj::NetworkAddress> address_;
  kj::Own<kj::HttpClient> http_;
  std::string session_;
  std::optional<pid_t> browser_pid_;
};

}  // namespace gangway
