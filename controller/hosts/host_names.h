// HostNames: the names that hosts have had, so that a host that comes back has its name again.
//
// The name of a lost host is kept for its owner: the next host that registers under it with the
// same owner gets it, whether or not slices still lie on the lost one. For another owner, and while
// the host is there, the name is taken. A host that is gone is forgotten after kForgetAfterNs, or
// on request.
//
// A name may be draining: the host that has it gets no new slices, nor does the next of that name.
//
// Threads: the reactor's thread.
// Errors: kInvalid for names that are not known, listing those that are.
// Cost: O(log names); forget_old() O(names).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace gangway {

struct NamedHost {
  std::string owner;
  std::optional<int64_t> gone_at_ns;  // None: it is there.
  std::string why_gone;
  bool is_draining = false;
};

class HostNames {
 public:
  static constexpr int64_t kForgetAfterNs = int64_t{24} * 3600 * 1'000'000'000;
  static constexpr size_t kNamesMax = 4096;  // Beyond it, the host gone longest is forgotten.

  // Returns "e2", or "e2-2" if that is taken.
  std::string take(const std::string& wanted, const std::string& owner);
  void gone(const std::string& name, int64_t now_ns, const std::string& why);
  void set_draining(const std::string& name, bool is_draining) {
    named(name).is_draining = is_draining;
  }
  bool is_draining(const std::string& name) const;
  // Throws kInvalid for a host that is there, too.
  void forget(const std::string& name);
  void forget_old(int64_t now_ns);
  // Adds a name of an earlier controller, whose host has not come back yet.
  void restore(const std::string& name, const std::string& owner, int64_t now_ns);
  // `changed` is called whenever a name is new, changes its owner or is forgotten. Null: no calls.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }

  // `forgotten` is called with each name that is forgotten. Null: no calls.
  void on_forget(std::function<void(const std::string&)> forgotten) {
    forgotten_ = std::move(forgotten);
  }

  const NamedHost* find(const std::string& name) const;
  // Throws kInvalid if the name is not known.
  const NamedHost& at(const std::string& name) const;
  const std::map<std::string, NamedHost>& all() const { return names_; }

 private:
  NamedHost& named(const std::string& name);
  void tell() const {
    if (changed_) changed_();
  }

  void drop(std::map<std::string, NamedHost>::const_iterator name);

  std::map<std::string, NamedHost> names_;
  std::function<void()> changed_;
  std::function<void(const std::string&)> forgotten_;
};

}  // namespace gangway
