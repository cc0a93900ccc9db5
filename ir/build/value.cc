#include "ir/build/value.h"

#include "ir/build/builder.h"
#include "runtime/base/error.h"

namespace gangway {

Value::Value(Builder* builder, ValueId id) : trace_(builder->trace()), id_(id) {}

Builder& Value::builder() const {
  GW_REQUIRE(trace_ != nullptr, "value: it is empty: expected the result of an op");
  GW_REQUIRE(trace_->builder != nullptr, "value: this value belongs to function \"",
             trace_->function,
             "\", which is already built, or was dropped: expected a value of one that is not "
             "built yet");
  return *trace_->builder;
}

Type Value::type() const { return builder().type(id_); }

int64_t Value::dim(int index) const {
  const Type t = type();
  int d = index < 0 ? index + t.rank() : index;
  GW_REQUIRE(d >= 0 && d < t.rank(), "dim: dimension ", index, " is out of range for ",
             to_string(t));
  return t.dims[static_cast<size_t>(d)];
}

}  // namespace gangway
