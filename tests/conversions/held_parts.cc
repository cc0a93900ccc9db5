#include "tests/conversions/held_parts.h"

#include <algorithm>
#include <functional>
#include <sstream>

#include "runtime/base/error.h"

namespace gangway::tests {
namespace {

using Index = std::vector<int64_t>;

int64_t volume(const Dims& dims) {
  int64_t product = 1;
  for (const int64_t size : dims) product *= size;
  return product;
}

void for_each(const Dims& dims, const std::function<void(const Index&)>& visit) {
  Index index(dims.size(), 0);
  for (int64_t left = volume(dims); left > 0; --left) {
    visit(index);
    for (size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];) index[d] = 0;
  }
}

size_t at(const Dims& dims, const Index& index) {
  int64_t place = 0;
  for (size_t d = 0; d < dims.size(); ++d) place = place * dims[d] + index[d];
  return static_cast<size_t>(place);
}

int64_t& element(HeldPart& part, const Index& index) { return part.elements[at(part.dims, index)]; }

HeldPart zeros(Dims dims) {
  const auto count = static_cast<size_t>(volume(dims));
  return {std::move(dims), std::vector<int64_t>(count, 0)};
}

// SplitMix64 (Steele et al. 2014).
int64_t number_of(uint64_t index, uint64_t term) {
  uint64_t z = (index * 1000 + term + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<int64_t>(z ^ (z >> 31)) >> 24;
}

int64_t reduced(Reduction reduction, int64_t a, int64_t b) {
  switch (reduction) {
    case Reduction::kSum:
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    case Reduction::kMax: return std::max(a, b);
    case Reduction::kMin: return std::min(a, b);
  }
  return 0;
}

// The axes that cut `dim`, outer first.
std::vector<size_t> cuts_of(const Sharding& sharding, size_t dim) {
  std::vector<size_t> axes;
  for (int order = 0; order < 16; ++order) {
    for (size_t axis = 0; axis < sharding.size(); ++axis) {
      const Placement& placement = sharding[axis];
      if (placement.kind == PlacementKind::kShard && placement.dim == static_cast<int>(dim) &&
          placement.order == order)
        axes.push_back(axis);
    }
  }
  return axes;
}

// The rows of the whole tensor that a device has along one dimension; -1 is padding.
Index rows_of(int64_t size, const Mesh& mesh, const Sharding& sharding, size_t dim,
              int64_t device) {
  Index rows;
  for (int64_t row = 0; row < size; ++row) rows.push_back(row);
  for (const size_t axis : cuts_of(sharding, dim)) {
    const auto parts = static_cast<size_t>(mesh.axes[axis].size);
    const size_t part = (rows.size() + parts - 1) / parts;
    rows.resize(part * parts, -1);
    const auto begin = static_cast<size_t>(mesh.coordinate(device, static_cast<int>(axis))) * part;
    rows = Index(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                 rows.begin() + static_cast<std::ptrdiff_t>(begin + part));
  }
  return rows;
}

std::vector<Index> all_rows_of(const Type& type, const Mesh& mesh, const Sharding& sharding,
                               int64_t device) {
  std::vector<Index> rows;
  for (size_t d = 0; d < type.dims.size(); ++d)
    rows.push_back(rows_of(type.dims[d], mesh, sharding, d, device));
  return rows;
}

Dims sizes_of(const std::vector<Index>& rows) {
  Dims sizes;
  for (const Index& of_dim : rows) sizes.push_back(static_cast<int64_t>(of_dim.size()));
  return sizes;
}

// The index in the whole tensor, or -1 in padding.
int64_t whole_index(const Type& type, const std::vector<Index>& rows, const Index& index) {
  int64_t place = 0;
  for (size_t d = 0; d < rows.size(); ++d) {
    const int64_t row = rows[d][static_cast<size_t>(index[d])];
    if (row < 0) return -1;
    place = place * type.dims[d] + row;
  }
  return place;
}

std::vector<size_t> partial_axes(const Sharding& sharding) {
  std::vector<size_t> axes;
  for (size_t axis = 0; axis < sharding.size(); ++axis) {
    if (sharding[axis].kind == PlacementKind::kPartial) axes.push_back(axis);
  }
  return axes;
}

int64_t member_number(const Mesh& mesh, const std::vector<size_t>& axes, int64_t device) {
  int64_t number = 0;
  for (const size_t axis : axes)
    number = number * mesh.axes[axis].size + mesh.coordinate(device, static_cast<int>(axis));
  return number;
}

// The devices that differ from `device` along `axes` only, in the order of their member numbers.
std::vector<int64_t> group_of(const Mesh& mesh, const std::vector<size_t>& axes, int64_t device) {
  std::vector<std::pair<int64_t, int64_t>> members;
  for (int64_t other = 0; other < mesh.devices(); ++other) {
    bool meets = true;
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
      const int a = static_cast<int>(axis);
      meets = meets && (std::ranges::count(axes, axis) > 0 ||
                        mesh.coordinate(device, a) == mesh.coordinate(other, a));
    }
    if (meets) members.emplace_back(member_number(mesh, axes, other), other);
  }
  std::ranges::sort(members);
  std::vector<int64_t> devices;
  for (const auto& [number, other] : members) devices.push_back(other);
  return devices;
}

std::vector<size_t> axes_named(const Mesh& mesh, const std::string& names) {
  std::vector<size_t> axes;
  std::istringstream in(names);
  for (std::string name; std::getline(in, name, ',');)
    axes.push_back(static_cast<size_t>(mesh.axis(name)));
  return axes;
}

HeldPart resized(const HeldPart& part, size_t dim, int64_t size) {
  Dims dims = part.dims;
  dims[dim] = size;
  HeldPart out = zeros(std::move(dims));
  for_each(out.dims, [&](const Index& index) {
    if (index[dim] < part.dims[dim])
      out.elements[at(out.dims, index)] = part.elements[at(part.dims, index)];
  });
  return out;
}

// Piece `number` of a part whose dimension is cut in `parts` of ceil(size / parts) rows.
HeldPart piece_of(const HeldPart& part, size_t dim, int64_t parts, int64_t number) {
  const int64_t rows = (part.dims[dim] + parts - 1) / parts;
  const HeldPart padded = resized(part, dim, rows * parts);
  Dims dims = part.dims;
  dims[dim] = rows;
  HeldPart out = zeros(std::move(dims));
  for_each(out.dims, [&](const Index& index) {
    Index from = index;
    from[dim] += number * rows;
    element(out, index) = padded.elements[at(padded.dims, from)];
  });
  return out;
}

HeldPart laid_out(const std::vector<HeldPart>& pieces, size_t dim, int64_t size) {
  Dims dims = pieces[0].dims;
  const int64_t rows = dims[dim];
  dims[dim] = rows * static_cast<int64_t>(pieces.size());
  HeldPart out = zeros(std::move(dims));
  for_each(out.dims, [&](const Index& index) {
    Index from = index;
    from[dim] %= rows;
    const HeldPart& piece = pieces[static_cast<size_t>(index[dim] / rows)];
    element(out, index) = piece.elements[at(piece.dims, from)];
  });
  return resized(out, dim, size);
}

// One op while it runs. Counts the elements that each device sends to others.
class Exchange {
 public:
  Exchange(const Mesh& mesh, const Attrs& attrs, const HeldParts& before)
      : mesh_(mesh), attrs_(attrs), before_(before), sent_(before.size(), 0) {}

  std::optional<AfterOp> run(Op op) {
    if (op == Op::shard_slice) return each([&](int64_t device) { return slice(device); });
    axes_ = axes_named(mesh_, attrs_.text("axes"));
    for (const char* dim : {"dim", "split_dim", "concat_dim"}) {
      if (attrs_.find(dim) != nullptr &&
          attrs_.integer(dim) >= static_cast<int64_t>(before_[0].dims.size()))
        return std::nullopt;
    }
    if (op == Op::all_gather) {
      const auto dim = static_cast<size_t>(attrs_.integer("dim"));
      if (attrs_.integer("size") > before_[0].dims[dim] * attrs_.integer("parts"))
        return std::nullopt;
      return each([&](int64_t device) { return gather(device, dim); });
    }
    if (op == Op::all_to_all) {
      const auto dim = static_cast<size_t>(attrs_.integer("concat_dim"));
      if (attrs_.integer("size") > before_[0].dims[dim] * attrs_.integer("parts"))
        return std::nullopt;
      return each([&](int64_t device) { return exchange(device, dim); });
    }
    if (op == Op::reduce_scatter) return each([&](int64_t device) { return scatter(device); });
    if (op == Op::all_reduce) return each([&](int64_t device) { return reduce(device); });
    if (op == Op::permute) return each([&](int64_t device) { return permute(device); });
    if (op == Op::keep_first) {
      return each([&](int64_t device) {
        const HeldPart& own = before_[static_cast<size_t>(device)];
        return member_number(mesh_, axes_, device) == 0 ? own : zeros(own.dims);
      });
    }
    return std::nullopt;
  }

 private:
  template <class What>
  AfterOp each(const What& what) {
    AfterOp after;
    for (int64_t device = 0; device < mesh_.devices(); ++device)
      after.parts.push_back(what(device));
    after.elements_sent = *std::ranges::max_element(sent_);
    return after;
  }

  const HeldPart& held_by(int64_t device) const { return before_[static_cast<size_t>(device)]; }
  void send(int64_t from, int64_t to, int64_t elements) {
    if (from != to) sent_[static_cast<size_t>(from)] += elements;
  }
  // Elements of a part of these dimensions, if it has `rows` rows.
  static int64_t volume_of_rows(Dims dims, size_t dim, int64_t rows) {
    dims[dim] = std::max(rows, int64_t{0});
    return volume(dims);
  }
  // The rows of piece `number` that are not padding.
  static int64_t rows_of_piece(const HeldPart& part, size_t dim, int64_t parts, int64_t number) {
    const int64_t rows = (part.dims[dim] + parts - 1) / parts;
    return std::min(rows, part.dims[dim] - number * rows);
  }

  HeldPart slice(int64_t device) {
    const int axis = mesh_.axis(attrs_.text("axis"));
    return piece_of(held_by(device), static_cast<size_t>(attrs_.integer("dim")),
                    attrs_.integer("parts"), mesh_.coordinate(device, axis));
  }

  HeldPart gather(int64_t device, size_t dim) {
    std::vector<HeldPart> pieces;
    int64_t left = attrs_.integer("size");
    for (const int64_t from : group_of(mesh_, axes_, device)) {
      const HeldPart& part = held_by(from);
      send(from, device, volume_of_rows(part.dims, dim, std::min(left, part.dims[dim])));
      left -= part.dims[dim];
      pieces.push_back(part);
    }
    return laid_out(pieces, dim, attrs_.integer("size"));
  }

  HeldPart exchange(int64_t device, size_t dim) {
    const auto split = static_cast<size_t>(attrs_.integer("split_dim"));
    const int64_t parts = attrs_.integer("parts"), own = member_number(mesh_, axes_, device);
    std::vector<HeldPart> pieces;
    int64_t left = attrs_.integer("size");
    for (const int64_t from : group_of(mesh_, axes_, device)) {
      const HeldPart& part = held_by(from);
      Dims sent = part.dims;
      sent[split] = std::max(rows_of_piece(part, split, parts, own), int64_t{0});
      send(from, device, volume_of_rows(sent, dim, std::min(left, part.dims[dim])));
      left -= part.dims[dim];
      pieces.push_back(piece_of(part, split, parts, own));
    }
    return laid_out(pieces, dim, attrs_.integer("size"));
  }

  HeldPart total(int64_t device) const {
    HeldPart sum;
    for (const int64_t from : group_of(mesh_, axes_, device)) {
      if (sum.elements.empty()) {
        sum = held_by(from);
        continue;
      }
      for (size_t i = 0; i < sum.elements.size(); ++i) {
        sum.elements[i] = reduced(*parse_reduction(attrs_.text("reduction")), sum.elements[i],
                                  held_by(from).elements[i]);
      }
    }
    return sum;
  }

  HeldPart scatter(int64_t device) {
    const auto dim = static_cast<size_t>(attrs_.integer("dim"));
    const int64_t parts = attrs_.integer("parts"), own = member_number(mesh_, axes_, device);
    const HeldPart sum = total(device);
    const int64_t sent = volume_of_rows(sum.dims, dim, rows_of_piece(sum, dim, parts, own));
    for (const int64_t from : group_of(mesh_, axes_, device)) send(from, device, sent);
    return piece_of(sum, dim, parts, own);
  }

  // Each member reduces its share of the elements and sends the result to all others. Shares are as
  // equal as they can be.
  HeldPart reduce(int64_t device) {
    const std::vector<int64_t> group = group_of(mesh_, axes_, device);
    const auto members = static_cast<int64_t>(group.size());
    const int64_t elements = volume(held_by(device).dims);
    const auto share = [&](int64_t member) {
      return elements / members + (member < elements % members);
    };
    for (int64_t member = 0; member < members; ++member) {
      const int64_t other = group[static_cast<size_t>(member)];
      send(other, device, share(member_number(mesh_, axes_, device)));  // Its terms.
      send(other, device, share(member));                               // Its results.
    }
    return total(device);
  }

  HeldPart permute(int64_t device) {
    const std::vector<size_t> to = axes_named(mesh_, attrs_.text("to"));
    const std::vector<int64_t> group = group_of(mesh_, axes_, device);
    const auto members = static_cast<int64_t>(group.size());
    for (int64_t number = 0; number < members; ++number) {
      const int64_t receiver = (number + attrs_.integer("shift")) % members;
      if (member_number(mesh_, to, device) != receiver) continue;
      const int64_t from = group[static_cast<size_t>(number)];
      send(from, device, volume(held_by(from).dims));
      return held_by(from);
    }
    GW_ASSERT(false, "nobody sends to device ", device);
  }

  const Mesh& mesh_;
  const Attrs& attrs_;
  const HeldParts& before_;
  std::vector<size_t> axes_;
  std::vector<int64_t> sent_;
};

}  // namespace

HeldAs::HeldAs(const Type& type, const Mesh& mesh, const Sharding& sharding)
    : elements_(volume(type.dims)) {
  const std::vector<size_t> axes = partial_axes(sharding);
  if (!axes.empty()) reduction_ = sharding[axes[0]].reduction;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    const std::vector<Index> rows = all_rows_of(type, mesh, sharding, device);
    dims_ = sizes_of(rows);
    indices_.emplace_back();
    for_each(dims_, [&](const Index& index) {
      indices_.back().push_back(whole_index(type, rows, index));
    });
    groups_.push_back(group_of(mesh, axes, device));
    terms_.push_back(static_cast<uint64_t>(member_number(mesh, axes, device)));
  }
}

HeldParts HeldAs::parts() const {
  HeldParts parts;
  for (size_t device = 0; device < indices_.size(); ++device) {
    HeldPart part = zeros(dims_);
    for (size_t i = 0; i < part.elements.size(); ++i) {
      const int64_t index = indices_[device][i];
      if (index >= 0) part.elements[i] = number_of(static_cast<uint64_t>(index), terms_[device]);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<int64_t> HeldAs::whole() const {
  std::vector<int64_t> numbers;
  for (int64_t index = 0; index < elements_; ++index) {
    int64_t number = number_of(static_cast<uint64_t>(index), 0);
    for (uint64_t term = 1; term < groups_[0].size(); ++term)
      number = reduced(reduction_, number, number_of(static_cast<uint64_t>(index), term));
    numbers.push_back(number);
  }
  return numbers;
}

bool HeldAs::fits(const HeldParts& parts, const std::vector<int64_t>& whole) const {
  for (size_t device = 0; device < parts.size(); ++device) {
    if (parts[device].dims != dims_) return false;
    const std::vector<int64_t>& group = groups_[device];
    for (size_t i = 0; i < indices_[device].size(); ++i) {
      const int64_t index = indices_[device][i];
      if (index < 0) {
        if (parts[device].elements[i] != 0) return false;
        continue;
      }
      int64_t number = parts[static_cast<size_t>(group[0])].elements[i];
      for (size_t m = 1; m < group.size(); ++m) {
        number = reduced(reduction_, number, parts[static_cast<size_t>(group[m])].elements[i]);
      }
      if (number != whole[static_cast<size_t>(index)]) return false;
    }
  }
  return true;
}

std::optional<AfterOp> apply(const Mesh& mesh, Op op, const Attrs& attrs, const HeldParts& before) {
  return Exchange(mesh, attrs, before).run(op);
}

}  // namespace gangway::tests
