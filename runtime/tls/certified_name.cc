#include "runtime/tls/certified_name.h"

#include <charconv>

#include "runtime/base/cat.h"
#include "runtime/base/plain_name.h"

namespace gangway {
namespace {

const char* word_of(CertifiedKind kind) {
  switch (kind) {
    case CertifiedKind::kHost: return "host";
    case CertifiedKind::kOwner: return "owner";
  }
  return "";
}

}  // namespace

bool can_be_certified(std::string_view name) {
  return is_plain_name(name) && name.size() <= kCertifiedNameBytesMax;
}

std::string common_name(const CertifiedName& name) {
  return cat(word_of(name.kind), ":", name.name, ":", name.number);
}

std::optional<CertifiedName> parse_common_name(std::string_view text) {
  const size_t first = text.find(':'), last = text.rfind(':');
  if (first == last) return std::nullopt;  // None at all, or only one.
  CertifiedName name{.kind = CertifiedKind::kHost,
                     .name = std::string(text.substr(first + 1, last - first - 1)),
                     .number = 0};
  if (text.substr(0, first) == word_of(CertifiedKind::kOwner)) name.kind = CertifiedKind::kOwner;
  const std::string_view digits = text.substr(last + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), name.number);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  if (!is_number || name.number == 0 || !can_be_certified(name.name)) return std::nullopt;
  // Refuses other words, and numbers that begin with zeros.
  return common_name(name) == text ? std::optional(name) : std::nullopt;
}

std::string user_of(const CertifiedName& name) {
  return name.kind == CertifiedKind::kOwner ? name.name : cat("host:", name.name);
}

std::string to_text(const CertifiedName& name) {
  return cat(word_of(name.kind), " ", name.name, " (number ", name.number, ")");
}

}  // namespace gangway
