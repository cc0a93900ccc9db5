#include "controller/plans/plan_links.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace gangway {
namespace {

void require_own_links(const PlanRecord& plan, size_t host, const Installed& reply) {
  const std::string& name = plan.plan->hosts[host];
  for (const uint32_t peer : reply.writes_to)
    GW_REQUIRE(peer < plan.hosts.size(), "host \"", name, "\": says that it writes to host ", peer,
               " of a plan of ", plan.hosts.size());
  for (const LinkOffer& offer : reply.offers)
    GW_REQUIRE(offer.host == host, "host \"", name, "\": offers memory of host ", offer.host,
               " of the plan: expected its own, of host ", host);
}

// Plan::hosts.size() if the host has no part in it.
uint32_t index_in(const PlanRecord& plan, HostId host) {
  return static_cast<uint32_t>(std::ranges::find(plan.hosts, host) - plan.hosts.begin());
}

// `to`: an index, which may be too large.
bool writes_to(const PlanRecord& plan, HostId from, uint32_t to) {
  const uint32_t at = index_in(plan, from);
  return at < plan.writes_to.size() && plan.writes_to[at].contains(to);
}

}  // namespace

void note_links(PlanRecord& plan, const std::vector<Installed>& installed) {
  for (size_t host = 0; host < installed.size(); ++host)
    require_own_links(plan, host, installed[host]);
  for (const Installed& reply : installed)
    plan.writes_to.emplace_back(reply.writes_to.begin(), reply.writes_to.end());
}

std::vector<LinkOffer> offers_for(const PlanRecord& plan, const std::vector<Installed>& installed,
                                  size_t host) {
  std::vector<LinkOffer> offers;
  for (const uint32_t peer : plan.writes_to[host]) {
    const std::vector<LinkOffer>& of_peer = installed[peer].offers;
    offers.insert(offers.end(), of_peer.begin(), of_peer.end());
  }
  return offers;
}

PlanRecord* PlanTable::find_over_link(HostId a, HostId b) {
  const auto writes = [](const PlanRecord& plan, HostId from, HostId to) {
    return writes_to(plan, from, index_in(plan, to));
  };
  for (auto& [id, plan] : plans_) {
    if (plan.uninstalled || plan.broken) continue;
    if (writes(plan, a, b) || writes(plan, b, a)) return &plan;
  }
  return nullptr;
}

std::optional<HostId> PlanTable::written_by(HostId by, PlanId on_hosts, uint32_t host) const {
  for (const auto& [id, plan] : plans_) {
    if (plan.uninstalled || plan.on_hosts != on_hosts) continue;
    return writes_to(plan, by, host) ? std::optional(plan.hosts[host]) : std::nullopt;
  }
  return std::nullopt;
}

std::map<HostId, std::set<HostId>> PlanTable::writers() const {
  std::map<HostId, std::set<HostId>> writers;
  for (const auto& [id, plan] : plans_) {
    if (plan.uninstalled) continue;
    for (size_t host = 0; host < plan.writes_to.size(); ++host) {
      for (const uint32_t peer : plan.writes_to[host])
        writers[plan.hosts[peer]].insert(plan.hosts[host]);
    }
  }
  return writers;
}

}  // namespace gangway
