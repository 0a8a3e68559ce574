//===- JsonText.h - Grammars of JSON's values -------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_JSONTEXT_H
#define MOE_RUNTIME_CONSTRAIN_JSONTEXT_H

#include "runtime/constrain/Grammar.h"
#include "runtime/constrain/JsonSchema.h"

#include <optional>
#include <set>

namespace moert {

/// Adds the parts of JSON texts to a grammar. Parts that are used often are
/// rules, added once.
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
  ExprId integer();
  ExprId boolean();
  ExprId null() { return grammar_.bytes("null"); }
  /// Integers from `least` to `most`; absent: no limit.
  ExprId integersBetween(std::optional<int64_t> least,
                         std::optional<int64_t> most);

  /// A character of a string: one of `set`, escaped if JSON requires it.
  static ExprId character(Grammar &grammar, const CharSet &set);
  /// Any character in any spelling, except halves of surrogate pairs.
  ExprId anyCharacter();
  /// Strings of `least` to `most` code points.
  ExprId stringOfLength(int32_t least, int32_t most);
  /// Strings other than `names`, which are compared as they would be written.
  ExprId stringExcept(const std::set<std::string> &names);
  ExprId quoted(ExprId content);

  /// White space where JSON allows it.
  ExprId space();
  /// An object: `{`, members with `,` between them, `}`. Members that are not
  /// required may be omitted; `rest`, if it is present, may follow any number
  /// of times.
  struct Member {
    ExprId text; ///< Name and value.
    bool isRequired;
  };
  ExprId objectOf(const std::vector<Member> &members,
                  std::optional<ExprId> rest);
  /// An array: `[`, the items `first` in this order, then `rest`, if it is
  /// present, any number of times, `]`. It has `least` to `most` items.
  ExprId listOf(const std::vector<ExprId> &first, std::optional<ExprId> rest,
                int32_t least, int32_t most);
  ExprId member(ExprId name, ExprId value);

private:
  /// Returns the rule, which `body` defines when it is first used.
  template <class Body> ExprId rule(const char *name, Body body);
  ExprId digits(int32_t least, int32_t most);
  /// Numbers without sign, of at least one digit, from `low` to `high`.
  ExprId naturalsBetween(const std::string &low, const std::string &high);
  ExprId sameLength(const std::string &low, const std::string &high);

  Grammar &grammar_;
  JsonTextOptions options_;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_JSONTEXT_H
