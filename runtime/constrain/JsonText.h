//===- JsonText.h - Grammars of JSON's values -------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_JSONTEXT_H
#define MOE_RUNTIME_CONSTRAIN_JSONTEXT_H

#include "runtime/constrain/Grammar.h"
#include "runtime/constrain/JsonSchema.h"
#include "runtime/constrain/NumberScanner.h"
#include "runtime/constrain/TextScanner.h"

#include <optional>
#include <string>
#include <vector>

namespace moert {

/// Adds the parts of JSON texts to a grammar. Parts that are used often are
/// rules, added once. Strings and numbers are read in every spelling.
class JsonText {
public:
  JsonText(Grammar &grammar, JsonTextOptions options)
      : grammar_(grammar), options_(options) {}

  /// Rules for any JSON value, object and array.
  ExprId value();
  ExprId object();
  ExprId list();
  ExprId string();
  ExprId number();
  ExprId boolean();
  ExprId null() { return words({"null", "None"}); }

  /// Strings whose value meets the rules; absent: there is none.
  std::optional<ExprId> stringOf(TextRules rules);
  /// Strings of these values.
  ExprId stringOf(std::shared_ptr<const TextList> texts);
  /// Names of members that meet the rules.
  std::optional<ExprId> nameOf(TextRules rules);
  /// Numbers that meet the rules; absent: there is none.
  std::optional<ExprId> numberOf(const NumberRules &rules);
  /// Exactly one value.
  ExprId constant(const nlohmann::json &value);

  /// White space where JSON allows it: up to 128 characters, 8 line ends among
  /// them.
  ExprId space();

  /// An object: `{`, members with `,` between them, `}`, in any order. Names
  /// differ. `rest` may be present any number of times; its names are others.
  struct Member {
    std::string name;
    ExprId value;
    bool isRequired;
  };
  struct Rest {
    ExprId name, value;
  };
  ExprId objectOf(const std::vector<Member> &members,
                  const std::vector<Rest> &rest, int32_t least = 0,
                  int32_t most = Expr::kUnbounded);
  /// An object that fits one of these, at least: it has no members but some of
  /// its own, and others of this value.
  struct Variant {
    std::vector<Member> members;
    std::optional<ExprId> others = {};
  };
  ExprId objectOfAny(const std::vector<Variant> &variants);
  /// An array: `[`, the items `first` in this order, then `rest`, if it is
  /// present, any number of times, `]`. It has `least` to `most` items.
  ExprId listOf(const std::vector<ExprId> &first, std::optional<ExprId> rest,
                int32_t least, int32_t most);

private:
  /// Returns the rule, which `body` defines when it is first used.
  template <class Body> ExprId rule(const char *name, Body body);
  ExprId scan(std::shared_ptr<const Scanner> scanner);
  /// JSON's word, or Python's in other notations.
  ExprId words(std::pair<const char *, const char *> each);
  /// The text in the quotes that the notation has.
  ExprId quoted(std::shared_ptr<const TextScanner> scanner);
  /// Gives a series the names of its entries.
  void addNames(Series &series, std::shared_ptr<const TextList> names);
  ExprId memberOf(ExprId name, ExprId value);
  ExprId enclosed(const char *open, Series series, const char *close);

  using Notation = JsonTextOptions::Notation;
  bool isBare() const { return options_.notation == Notation::Bare; }

  Grammar &grammar_;
  JsonTextOptions options_;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_JSONTEXT_H
