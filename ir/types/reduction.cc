#include "ir/types/reduction.h"

namespace gangway {

std::string_view to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum: return "sum";
    case Reduction::kMax: return "max";
    case Reduction::kMin: return "min";
  }
  return "unknown";
}

std::optional<Reduction> parse_reduction(std::string_view text) {
  for (Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    if (text == to_string(reduction)) return reduction;
  }
  return std::nullopt;
}

}  // namespace gangway
