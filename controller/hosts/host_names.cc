#include "controller/hosts/host_names.h"

#include <algorithm>

#include "runtime/base/cut.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

constexpr size_t kListedMax = 8;  // Names in one message.
constexpr size_t kQuotedMax = 256;

}  // namespace

std::string HostNames::take(const std::string& wanted, const std::string& owner) {
  std::string name = wanted;
  for (int i = 2;; ++i) {
    const auto taken = names_.find(name);
    if (taken == names_.end()) break;
    if (taken->second.gone_at_ns && taken->second.owner == owner) break;
    name = cat(wanted, "-", i);
  }
  const bool is_new = find(name) == nullptr || find(name)->owner != owner;
  NamedHost& host = names_[name];
  host.owner = owner;
  host.gone_at_ns.reset();
  host.why_gone.clear();
  if (is_new) tell();
  return name;
}

void HostNames::gone(const std::string& name, int64_t now_ns, const std::string& why) {
  NamedHost& host = named(name);
  host.gone_at_ns = now_ns;
  host.why_gone = why;
  if (names_.size() <= kNamesMax) return;
  const auto age = [](const auto& item) { return item.second.gone_at_ns.value_or(INT64_MAX); };
  const auto oldest = std::min_element(
      names_.begin(), names_.end(), [&](const auto& a, const auto& b) { return age(a) < age(b); });
  if (!oldest->second.gone_at_ns) return;
  drop(oldest);
  tell();
}

void HostNames::drop(std::map<std::string, NamedHost>::const_iterator name) {
  const std::string forgotten = name->first;
  names_.erase(name);
  if (forgotten_) forgotten_(forgotten);
}

void HostNames::restore(const std::string& name, const std::string& owner, int64_t now_ns) {
  names_[name] = {.owner = owner,
                  .gone_at_ns = now_ns,
                  .why_gone = "it has not come back since the controller was started again"};
}

bool HostNames::is_draining(const std::string& name) const {
  const NamedHost* const host = find(name);
  return host != nullptr && host->is_draining;
}

void HostNames::forget(const std::string& name) {
  if (!at(name).gone_at_ns) {
    throw Error(ErrorKind::kInvalid, cat("forget: host \"", cut(name, kQuotedMax), "\" is there"),
                {}, "drain it and end its executor first");
  }
  drop(names_.find(name));
  tell();
}

void HostNames::forget_old(int64_t now_ns) {
  const size_t before = names_.size();
  for (auto at = names_.begin(); at != names_.end();) {
    const auto one = at++;
    const auto& gone = one->second.gone_at_ns;
    if (gone && now_ns - *gone >= kForgetAfterNs) drop(one);
  }
  if (names_.size() < before) tell();
}

const NamedHost* HostNames::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second;
}

const NamedHost& HostNames::at(const std::string& name) const {
  const NamedHost* const host = find(name);
  if (host != nullptr) return *host;
  std::string there;
  size_t count = 0;
  for (const auto& [other, of] : names_) {
    if (++count > kListedMax) continue;
    there += cat(there.empty() ? "" : ", ", other, of.gone_at_ns ? " (gone)" : "");
  }
  if (count > kListedMax) there += cat(" and ", count - kListedMax, " more");
  throw Error(ErrorKind::kInvalid,
              cat("there is no host \"", cut(name, kQuotedMax),
                  "\": ", there.empty() ? "no host is known" : cat("expected one of ", there)));
}

NamedHost& HostNames::named(const std::string& name) { return const_cast<NamedHost&>(at(name)); }

}  // namespace gangway
