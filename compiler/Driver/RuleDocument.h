//===- RuleDocument.h - YAML with lines for errors --------------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_RULEDOCUMENT_H
#define MOE_COMPILER_DRIVER_RULEDOCUMENT_H

#include "runtime/base/Status.h"

#include <map>
#include <optional>
#include <string>
#include <vector>
#include <yaml.h>

namespace moec {

/// A parsed YAML document. Errors have the code InvalidFile and begin with
/// "PATH:LINE: ".
class RuleDocument {
public:
  using Node = yaml_node_t;

  explicit RuleDocument(std::string path) : path_(std::move(path)) {}
  RuleDocument(const RuleDocument &) = delete;
  ~RuleDocument();

  /// Parses a text, once per object.
  moert::Status load(const std::string &text);

  /// Returns null for a text without any node.
  const Node *root() { return yaml_document_get_root_node(&document_); }
  const Node *node(int index) {
    return yaml_document_get_node(&document_, index);
  }

  const std::string &path() const { return path_; }
  /// Returns the line of a node. For an alias and its contents, returns the
  /// line of its last use.
  size_t lineOf(const Node &node) const;
  moert::Status error(size_t line, const std::string &what) const;
  moert::Status error(const Node &node, const std::string &what) const {
    return error(lineOf(node), what);
  }

  /// Returns a scalar's text; none for other nodes.
  static std::optional<std::string> scalar(const Node &node);
  /// Whether a node is YAML's null, or Python's None.
  static bool isNone(const Node &node);

  struct Entry {
    std::string key;
    const Node *value;
    size_t line; ///< Line of the key; for a merged entry, line of its "<<".
  };
  /// Returns the entries of a mapping, and of those that it merges ("<<"), as
  /// PyYAML does: own keys win, then those of the first of several mappings in
  /// a list. A key that is there twice is an error, which `what` begins.
  moert::StatusOr<std::vector<Entry>> entriesOf(const Node &mapping,
                                                const std::string &what);

private:
  using Merged = std::map<std::string, Entry>;
  moert::Status merge(const Node &value, size_t line, int depth, Merged &into);
  moert::StatusOr<std::vector<Entry>>
  entriesOf(const Node &mapping, const std::string &what, int depth);
  moert::Status parseError(const std::string &text, size_t line,
                           const char *problem) const;

  std::string path_;
  yaml_document_t document_ = {};
  bool loaded_ = false;
  size_t merged_ = 0; ///< Entries that were merged so far.
  /// Lines of the aliases that refer to each node.
  std::map<const Node *, size_t> usedAs_;
};

} // namespace moec

#endif // MOE_COMPILER_DRIVER_RULEDOCUMENT_H
