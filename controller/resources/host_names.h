// HostNames: the names that hosts have had, so that a host that comes back is who it was.
//
// A host that is lost keeps its name for its owner: whoever registers under it next, as the same
// owner, gets it, whether or not slices still lie on the lost one. For another owner, and while the
// host is there, the name is taken. A host that is gone is forgotten after
// kForgetAfterNs.
//
// Threads: the reactor's thread.
// Errors: kInvalid for names that nobody has, listing those that there are.
// Cost: O(log names); forget_old() O(names).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace gangway {

struct NamedHost {
  std::string owner;
  std::optional<int64_t> gone_at_ns;  // None: it is there.
  std::string why_gone;
};

class HostNames {
 public:
  static constexpr int64_t kForgetAfterNs = int64_t{24} * 3600 * 1'000'000'000;
  static constexpr size_t kNamesMax = 4096;  // Of hosts that are gone; the oldest go first.

  // "e2", or "e2-2" where that is taken.
  std::string take(const std::string& wanted, const std::string& owner);
  void gone(const std::string& name, int64_t now_ns, const std::string& why);
  void forget_old(int64_t now_ns);

  const NamedHost* find(const std::string& name) const;
  // Throws kInvalid where nobody has it.
  const NamedHost& at(const std::string& name) const;
  const std::map<std::string, NamedHost>& all() const { return names_; }

 private:
  NamedHost& named(const std::string& name);

  std::map<std::string, NamedHost> names_;
};

}  // namespace gangway
