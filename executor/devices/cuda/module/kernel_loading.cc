#include "executor/devices/cuda/module/kernel_loading.h"

#include <string>
#include <string_view>

namespace gangway::cuda {

int cards_of(const std::filesystem::path& folder) {
  constexpr std::string_view kPrefix = "nvidia", kDigits = "0123456789";
  int cards = 0;
  std::error_code ignored;
  std::filesystem::directory_iterator entries(folder, ignored), end;
  for (; !ignored && entries != end; entries.increment(ignored)) {
    const std::string name = entries->path().filename();
    const bool card = name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
                      name.find_first_not_of(kDigits, kPrefix.size()) == name.npos;
    cards += card ? 1 : 0;
  }
  return cards;
}

bool loads_all_kernels_at_once(int cards, const char* visible) {
  const std::string_view list = visible == nullptr ? "" : visible;
  if (visible != nullptr && list.find(',') == list.npos) return false;  // One card, or none.
  return cards != 1;
}

}  // namespace gangway::cuda
