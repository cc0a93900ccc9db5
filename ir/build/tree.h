// Tree: named nested values, such as a model's parameters: params["layers"][0]["attn"]["q"].
//
// A tree is a leaf (one T) or a node with named or numbered children in insertion order; a leaf's
// full name joins the keys with dots: "layers.0.attn.q". Like a JAX pytree restricted to maps,
// lists and leaves.
// Threads: a value.
// Errors: a wrong key throws kInvalid and lists the keys that exist.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/build/value.h"
#include "runtime/base/cat.h"
#include "runtime/base/error.h"

namespace gangway {

template <class T>
class TreeOf {
 public:
  TreeOf() = default;
  TreeOf(T leaf) : leaf_(std::move(leaf)), is_leaf_(true) {}

  const T& leaf() const {
    GW_REQUIRE(is_leaf_, "tree: this is a node, not a leaf; its keys are: ", keys());
    return leaf_;
  }
  operator const T&() const { return leaf(); }

  // The child, for reading: it must exist.
  const TreeOf& operator[](std::string_view key) const {
    for (const auto& [name, child] : children_) {
      if (name == key) return child;
    }
    throw Error(ErrorKind::kInvalid, cat("tree: no child \"", key, "\"; there are: ", keys()));
  }
  const TreeOf& operator[](const char* key) const { return (*this)[std::string_view(key)]; }
  const TreeOf& operator[](int index) const {
    return (*this)[std::string_view(std::to_string(index))];
  }
  bool contains(std::string_view key) const {
    for (const auto& [name, child] : children_) {
      if (name == key) return true;
    }
    return false;
  }

  // The child; an empty one is added when there is none of this name.
  TreeOf& child(std::string_view key) {
    for (auto& [name, child] : children_) {
      if (name == key) return child;
    }
    return children_.emplace_back(std::string(key), TreeOf()).second;
  }
  void set(std::string_view key, TreeOf tree) { child(key) = std::move(tree); }
  void append(TreeOf tree) { set(std::to_string(children_.size()), std::move(tree)); }

  size_t size() const { return children_.size(); }

  // Iteration over the children alone: for (const Tree& layer : params["layers"]).
  class Iterator {
   public:
    explicit Iterator(const std::pair<std::string, TreeOf>* at) : at_(at) {}
    const TreeOf& operator*() const { return at_->second; }
    const std::string& key() const { return at_->first; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    const std::pair<std::string, TreeOf>* at_;
  };
  Iterator begin() const { return Iterator(children_.data()); }
  Iterator end() const { return Iterator(children_.data() + children_.size()); }

  // visit(full name, leaf) in order.
  template <class Visit>
  void for_each(Visit&& visit, const std::string& prefix = {}) const {
    if (is_leaf_) visit(prefix, leaf_);
    for (const auto& [name, child] : children_) {
      child.for_each(visit, name_below(prefix, name));
    }
  }

  // The same shape with every leaf replaced by f(full name, leaf).
  template <class F>
  auto map(F&& f, const std::string& prefix = {}) const
      -> TreeOf<decltype(f(prefix, std::declval<const T&>()))> {
    if (is_leaf_) return {f(prefix, leaf_)};
    TreeOf<decltype(f(prefix, leaf_))> out;
    for (const auto& [name, child] : children_) {
      out.set(name, child.map(f, name_below(prefix, name)));
    }
    return out;
  }

 private:
  static std::string name_below(const std::string& prefix, const std::string& name) {
    return prefix.empty() ? name : cat(prefix, ".", name);
  }

  std::string keys() const {
    std::string text;
    for (const auto& [name, child] : children_) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  T leaf_{};
  bool is_leaf_ = false;
  std::vector<std::pair<std::string, TreeOf>> children_;
};

using Tree = TreeOf<Value>;

// True when `name` matches a pattern of the form users write: "*" any run, "|" alternatives
// ("*.up|*.down").
bool matches(std::string_view pattern, std::string_view name);

}  // namespace gangway
