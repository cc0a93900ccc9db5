// Helpers for writing DOT: labels that show any text as it is, and edges that are drawn once.
//
// Threads: pure; an EdgeList belongs to one thread.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gangway::internal {

// Quoted. Long lines are cut; control characters, bytes that are not UTF-8, and characters with a
// meaning to Graphviz (quotes, backslashes, entities) show as a character or a blank.
std::string dot_label(const std::vector<std::string>& lines);

// Edges between boxes, in the order in which they are first added.
class EdgeList {
 public:
  // Ignores an edge from a box to itself.
  void add(const std::string& from, const std::string& to, const std::string& style = "");
  void write(std::string& out) const;

 private:
  std::set<std::pair<std::string, std::string>> seen_;
  std::string text_;
};

}  // namespace gangway::internal
