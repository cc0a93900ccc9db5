#include "programs/train/sample.h"

#include <deque>

namespace gangway::programs {
namespace {

constexpr size_t kTokensAhead = 4;

char printable(int32_t token) {
  bool shown = token == '\n' || token == '\t' || (token >= 32 && token < 127);
  return shown ? static_cast<char>(token) : '?';
}

}  // namespace

std::string sample(const Executable& generate, const SampleOptions& options) {
  GW_REQUIRE(!options.prompt.empty(), "sample: the prompt is empty: there is nothing to continue");
  const auto prompt = static_cast<int64_t>(options.prompt.size());
  std::string text = options.prompt;
  std::deque<Run> runs;
  auto take = [&] {
    text += printable(runs.front()["token"].item<int32_t>());
    runs.pop_front();
  };
  for (int64_t position = 0; position + 1 < options.bytes; ++position) {
    bool forced = position < prompt;
    int32_t token =
        forced ? static_cast<uint8_t>(options.prompt[static_cast<size_t>(position)]) : -1;
    std::vector<int32_t> key = {static_cast<int32_t>(options.seed), static_cast<int32_t>(position)};
    Run run = generate.run({{"forced", HostTensor::of<int32_t>({1}, std::vector<int32_t>{token})},
                            {"temperature", static_cast<float>(options.temperature)},
                            {"key", HostTensor::of<int32_t>({2}, key)},
                            {"position", static_cast<int32_t>(position)}});
    if (position + 1 >= prompt) runs.push_back(run);
    if (runs.size() > kTokensAhead) take();
  }
  while (!runs.empty()) take();
  return text;
}

}  // namespace gangway::programs
