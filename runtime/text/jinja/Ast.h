//===- Ast.h - The syntax tree of a template --------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_JINJA_AST_H
#define MOE_RUNTIME_TEXT_JINJA_AST_H

#include "runtime/text/jinja/Value.h"

#include <memory>
#include <string>
#include <vector>

namespace moert::jinja {

/// Position of a character in the template, from 1; columns count bytes.
struct Place {
  uint32_t line = 1, column = 1;
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, starStar; ///< *args and **kwargs; null if absent.
};

struct Expr {
  enum class Type : uint8_t {
    None,
    Bool,
    Int,
    Float,
    String,
    Name,
    List,        ///< children
    Tuple,       ///< children
    Dict,        ///< children: key, value, key, value, ...
    Negate,      ///< children[0]
    Plus,        ///< children[0]
    Not,         ///< children[0]
    And,         ///< children[0], children[1]
    Or,          ///< children[0], children[1]
    Arithmetic,  ///< children[0] op children[1]; '+' and those of arithmetic()
    Concat,      ///< children
    Compare,     ///< children[0] comparisons[0] children[1] ...
    Conditional, ///< children[0] if children[1] else children[2], perhaps null
    Attribute,   ///< children[0].text
    Item,        ///< children[0][children[1]]
    Slice,       ///< children[0][children[1]:children[2]:children[3]] or null
    Call,        ///< children[0](arguments)
    Filter,      ///< children[0] | text(arguments); null: the text of a block
    Test,        ///< children[0] is text(arguments)
  };
  Type type;
  Place place;
  uint32_t depth = 1; ///< Depth of this tree.
  char op = 0;
  bool boolean = false;
  Integer integer = 0;
  double number = 0;
  std::string text;
  std::vector<ExprPtr> children;
  /// '=', '!', '<', '>', 'l' (<=), 'g' (>=), 'i' (in), 'n' (not in).
  std::string comparisons;
  Arguments arguments;
};

struct Node;
using Body = std::vector<std::unique_ptr<Node>>;

/// Target of `set` and `for`: a name, an attribute of a namespace, or several
/// targets.
struct Target {
  std::string name;
  std::string attribute; ///< "" except for namespaces.
  std::vector<Target> parts;
  Place place;
};

struct Node {
  Place place;
  explicit Node(Place place) : place(place) {}
  virtual ~Node() = default;
};
struct TextNode : Node {
  std::string text;
  using Node::Node;
};
struct OutputNode : Node {
  ExprPtr value;
  using Node::Node;
};
struct IfNode : Node {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
  using Node::Node;
};
struct ForNode : Node {
  Target target;
  ExprPtr over, condition; ///< `condition` may be null.
  Body body, otherwise;
  bool isRecursive = false;
  using Node::Node;
};
struct SetNode : Node {
  Target target;
  /// Null if the value is the rendered `body`, through `filter`.
  ExprPtr value;
  ExprPtr filter;
  Body body;
  using Node::Node;
};
struct MacroNode : Node {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults; ///< Defaults of the last parameters.
  /// Whether the body uses varargs, kwargs and caller; arguments for the others
  /// are not accepted.
  bool usesVarargs = false, usesKwargs = false, usesCaller = false;
  Body body;
  using Node::Node;
};
struct CallNode : Node {
  ExprPtr call;
  std::unique_ptr<MacroNode> caller;
  using Node::Node;
};
struct FilterNode : Node {
  ExprPtr filter;
  Body body;
  using Node::Node;
};
/// A block with its own scope: with, block, generation.
struct ScopeNode : Node {
  std::vector<std::pair<Target, ExprPtr>> names;
  Body body;
  using Node::Node;
};
struct BreakNode : Node {
  using Node::Node;
};
struct ContinueNode : Node {
  using Node::Node;
};

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_AST_H
