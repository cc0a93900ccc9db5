#include "executor/devices/lower/met_node.h"

#include <algorithm>

#include "executor/devices/compiled_function.h"
#include "ir/types/axis_list.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

CollectiveKind kind_of(Op op) {
  for (size_t k = 0; k < kCollectiveKinds; ++k) {
    const auto kind = static_cast<CollectiveKind>(k);
    if (to_string(kind) == to_string(op)) return kind;
  }
  GW_ASSERT(false, to_string(op), ": devices do not meet in it");
  return CollectiveKind::kAllReduce;
}

Reduction reduction_of(const Attrs& attrs) {
  const AttrValue* value = attrs.find("reduction");
  if (value == nullptr) return Reduction::kSum;
  const std::string& name = std::get<std::string>(*value);
  return name == "max" ? Reduction::kMax : name == "min" ? Reduction::kMin : Reduction::kSum;
}

// The member that each member sends to.
std::vector<uint32_t> receivers(const Mesh& mesh, const Attrs& attrs) {
  const std::vector<int> axes = axes_of(mesh, attrs.text("axes"));
  const std::vector<int> to = axes_of(mesh, attrs.text("to"));
  const int64_t n = members_along(mesh, axes);
  const std::vector<int64_t> devices = members_with(mesh, axes, 0);
  std::vector<uint32_t> member_at(devices.size());  // Indexed by number along `to`.
  for (size_t m = 0; m < devices.size(); ++m) {
    member_at[static_cast<size_t>(member_along(mesh, to, devices[m]))] = static_cast<uint32_t>(m);
  }
  std::vector<uint32_t> to_whom;
  for (int64_t m = 0; m < n; ++m) {
    const int64_t number = ((m + attrs.integer("shift")) % n + n) % n;
    to_whom.push_back(member_at[static_cast<size_t>(number)]);
  }
  return to_whom;
}

int dim_of(const Attrs& attrs, const char* name) { return static_cast<int>(attrs.integer(name)); }

}  // namespace

MetNode::MetNode(const NodeView& node) : node_(node.node()) {
  const Attrs& attrs = node.attrs();
  const Mesh& mesh = node.function.mesh;
  const int64_t members = members_along(mesh, axes_of(mesh, attrs.text("axes")));
  const auto parts = static_cast<uint32_t>(members);
  if (const AttrValue* given = attrs.find("parts")) {
    GW_REQUIRE(std::get<int64_t>(*given) == members, to_string(node.op()), " of ",
               std::get<int64_t>(*given), " parts: expected ", members, ", the devices along ",
               attrs.text("axes"), " of ", to_string(mesh));
  }
  call_.kind = kind_of(node.op());
  call_.reduction = reduction_of(attrs);
  switch (call_.kind) {
    case CollectiveKind::kAllReduce: break;
    case CollectiveKind::kAllGather:
      call_.cut = gather_cut(node.in(0), dim_of(attrs, "dim"), attrs.integer("size"));
      break;
    case CollectiveKind::kReduceScatter:
      call_.cut = scatter_cut(node.in(0), dim_of(attrs, "dim"), parts);
      break;
    case CollectiveKind::kAllToAll:
      call_.cut = all_to_all_cut(node.in(0), dim_of(attrs, "split_dim"),
                                 dim_of(attrs, "concat_dim"), parts, attrs.integer("size"));
      break;
    case CollectiveKind::kRaggedAllToAll:
      call_.ragged = {.row_elements = elements_between(node.in(0).dims, 1, node.in(0).dims.size()),
                      .rows = node.in(0).dims[0],
                      .bound = attrs.integer("bound"),
                      .must_fit = attrs.flag("must_fit")};
      break;
    case CollectiveKind::kPermute: to_ = receivers(mesh, attrs); break;
    case CollectiveKind::kBroadcast:
      call_.root = static_cast<uint32_t>(attrs.integer("root"));
      GW_REQUIRE(call_.root < parts, "collective_broadcast: root is out of range: expected 0 to ",
                 parts - 1, ", got ", call_.root);
      break;
  }
  const size_t tensors = call_.kind == CollectiveKind::kAllReduce ? node.inputs() : 1;
  for (size_t i = 0; i < tensors; ++i) {
    tensors_.push_back({nullptr, nullptr, node.in(i).elements(), node.in(i).dtype});
    bytes_ += align_up(node.in(i).bytes(), kDeviceAlignment);
  }
  CollectiveCall whole = call_;
  whole.tensors = tensors_;
  bytes_ = std::max(bytes_, bytes_needed(whole));
}

}  // namespace gangway
