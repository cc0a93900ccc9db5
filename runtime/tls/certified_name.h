// CertifiedName: whom a certificate stands for, as its common name says it.
//
// A cluster's certificates are those of hosts, which run the controller and executors, and of
// owners, who run programs. The number, by which a certificate is revoked, is its serial number
// too:
//
//   host:node7:12    host "node7", certificate number 12 of its authority
//   owner:ada:13     owner "ada", certificate number 13
//
// Threads: values; functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gangway {

enum class CertifiedKind : uint8_t { kHost, kOwner };

struct CertifiedName {
  CertifiedKind kind = CertifiedKind::kOwner;
  std::string name;
  uint32_t number = 0;  // Counts an authority's certificates from 1.

  bool operator==(const CertifiedName&) const = default;
};

// X.509 allows 64 bytes for a common name, of which the kind and the number take some.
inline constexpr size_t kCertifiedNameBytesMax = 40;

// Whether it is 1 to kCertifiedNameBytesMax letters, digits, '-', '_' and '.'.
bool can_be_certified(std::string_view name);

// "host:node7:12"
std::string common_name(const CertifiedName& name);
// Empty if the text is not one that common_name() returns.
std::optional<CertifiedName> parse_common_name(std::string_view text);

// The user for whom a server takes a peer with this name: an owner's name, or "host:node7", which
// no owner can be called.
std::string user_of(const CertifiedName& name);

// For messages: "host node7 (number 12)".
std::string to_text(const CertifiedName& name);

}  // namespace gangway
