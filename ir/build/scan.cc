#include "ir/build/scan.h"

#include <map>
#include <utility>

#include "ir/build/body_gradient.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

[[noreturn]] void refuse(const std::string& message, Loc loc) {
  throw Error(ErrorKind::kInvalid, message, {.at = to_string(loc)});
}

// "x", or the value's name in a tree of several.
std::string spelled(const char* part, const std::string& name) {
  return name.empty() ? std::string(part) : cat(part, ".", name);
}

size_t append(std::vector<Value>& values, const Tree& tree) {
  const size_t before = values.size();
  tree.for_each([&](const std::string&, const Value& value) { values.push_back(value); });
  return values.size() - before;
}

// Parameters of the body, in the shape of the operands.
Tree parameters(Builder& body, const char* part, const Tree& operands, Loc loc) {
  return operands.map([&](const std::string& name, const Value& value) {
    if (value.empty()) refuse(cat("scan: ", spelled(part, name), " is an empty value"), loc);
    return body.parameter(spelled(part, name), value.type(), {}, loc);
  });
}

Tree slices(Builder& body, int64_t length, const Tree& operands, Loc loc) {
  return operands.map([&](const std::string& name, const Value& value) {
    const std::string what = spelled("slice", name);
    if (value.empty()) refuse(cat("scan: ", what, " is an empty value"), loc);
    Type type = value.type();
    if (type.rank() == 0 || type.dims[0] != length) {
      refuse(cat("scan: a stacked operand (", what, ") must have a row for each of ", length,
                 " iterations: got ", to_string(type)),
             loc);
    }
    type.dims.erase(type.dims.begin());
    return body.parameter(what, type, {}, loc);
  });
}

// The carries that an iteration gives, by their names, in the order of the operands.
void add_carries(Builder& body, const Tree& operands, const Tree& given, Loc loc) {
  std::map<std::string, Value> named;
  given.for_each([&](const std::string& name, const Value& value) { named[name] = value; });
  operands.for_each([&](const std::string& name, const Value& entering) {
    const std::string what = spelled("carry", name);
    const auto found = named.extract(name);
    if (found.empty())
      refuse(cat("scan: the body gives no ", what, ": expected carries as it got them"), loc);
    const Value& leaving = found.mapped();
    if (!leaving.empty() && leaving.type() != entering.type()) {
      refuse(cat("scan: ", what, " changes its type: it enters an iteration as ",
                 to_string(entering.type()), " and leaves it as ", to_string(leaving.type())),
             loc);
    }
    body.result(what, leaving, loc);
  });
  if (!named.empty()) {
    refuse(cat("scan: the body gives carry \"", named.begin()->first, "\", which it did not get"),
           loc);
  }
}

}  // namespace

Scanned scan(Builder& builder, const ScanOperands& operands,
             const std::function<Scanned(const ScanStep&)>& body, Loc loc) {
  std::vector<Value> inputs;
  const size_t carries = append(inputs, operands.carries);
  const size_t invariants = append(inputs, operands.invariants);
  append(inputs, operands.stacked);

  Builder inner(builder, operands.name);
  const ScanStep step{inner, parameters(inner, "carry", operands.carries, loc),
                      parameters(inner, "invariant", operands.invariants, loc),
                      slices(inner, operands.length, operands.stacked, loc)};
  const Scanned given = body(step);
  add_carries(inner, operands.carries, given.carries, loc);
  given.stacked.for_each([&](const std::string& name, const Value& value) {
    inner.result(spelled("stacked", name), value, loc);
  });
  std::shared_ptr<const Function> traced = internal::with_residuals(
      std::make_shared<const Function>(inner.build()),
      {.repeats = true, .carries = carries, .first_stacked = carries + invariants}, builder);

  const std::vector<Value> made = builder.emit(Op::scan, inputs,
                                               {{"length", operands.length},
                                                {"carries", static_cast<int64_t>(carries)},
                                                {"invariants", static_cast<int64_t>(invariants)},
                                                {"reverse", operands.reverse}},
                                               loc, std::move(traced));
  size_t next = 0;
  const auto take = [&](const std::string&, const Value&) { return made[next++]; };
  Tree last = operands.carries.map(take);
  return {.carries = std::move(last), .stacked = given.stacked.map(take)};
}

std::vector<Value> call(Builder& builder, const std::shared_ptr<const Function>& function,
                        const std::vector<Value>& arguments, Loc loc) {
  if (function == nullptr) refuse("call: the function is missing", loc);
  if (function->mesh != builder.function().mesh) {
    refuse(cat("call: function \"", function->name, "\" is over mesh ", to_string(function->mesh),
               ": expected ", to_string(builder.function().mesh)),
           loc);
  }
  std::shared_ptr<const Function> shared = builder.bodies().callable(function, [&] {
    return internal::with_residuals(function, {.first_stacked = function->parameters.size()},
                                    builder);
  });
  std::vector<Value> made = builder.emit(Op::call, arguments, {}, loc, std::move(shared));
  made.resize(function->results.size());
  return made;
}

}  // namespace gangway
