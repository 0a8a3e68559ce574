//===- CallGrammar.h - Grammars of calls of tools ---------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_CALLGRAMMAR_H
#define MOE_RUNTIME_CHAT_CALLGRAMMAR_H

#include "runtime/base/Deadline.h"
#include "runtime/base/Status.h"
#include "runtime/chat/ToolFormat.h"
#include "runtime/constrain/Grammar.h"
#include "runtime/constrain/JsonText.h"

#include <functional>
#include <string>
#include <vector>

namespace moert {

/// Adds calls of tools to a grammar, in the spelling in which a model of the
/// form writes them.
class CallGrammar {
public:
  /// With `mustHold`, a schema that cannot be held to is an error, which names
  /// the tool and the place in its schema; otherwise a tool that is not strict
  /// then takes any object as its arguments.
  /// Once the deadline has passed, all fail with Usage.
  CallGrammar(Grammar &grammar, const std::vector<Tool> &tools, bool mustHold,
              const Deadline &deadline = {})
      : grammar_(grammar), tools_(tools), mustHold_(mustHold),
        deadline_(deadline), json_(grammar, {}), python_(grammar, python()),
        bare_(grammar, bare()) {}

  /// One call, or several with `isParallel`, and what stands around them. The
  /// prompt may have begun the first mark (Speech::begun).
  StatusOr<ExprId> calls(const ToolFormat &form, bool isParallel,
                         std::string_view begun = {});
  /// One call, with its marks but not those around all calls.
  StatusOr<ExprId> call(const ToolFormat &form, const Tool &tool);
  /// The arguments alone, as JSON.
  StatusOr<ExprId> arguments(const Tool &tool) {
    return arguments(tool, json_, {});
  }

private:
  Status checkTime() const;
  StatusOr<ExprId> anyCall(const ToolFormat &form, const std::string &rule);
  StatusOr<ExprId> arguments(const Tool &tool, JsonText &any,
                             const JsonTextOptions &notation);
  StatusOr<ExprId> object(const ToolFormat &form, const Tool &tool);
  ExprId head(const ToolFormat &form, const std::string &name);
  StatusOr<ExprId> tagged(const ToolFormat &form, const Tool &tool);
  StatusOr<ExprId> keywords(const Tool &tool);
  /// A parameter by its name, or with "" one of those that the schema does not
  /// name.
  using MakeParameter = std::function<StatusOr<ExprId>(
      const std::string &name, const nlohmann::ordered_json &schema)>;
  StatusOr<Series> parameters(const Tool &tool, bool hasOthers,
                              const MakeParameter &make);
  ExprId otherName(ExprId name, const Tool &tool);
  StatusOr<ExprId> parameter(const ToolFormat &form, const Tool &tool,
                             ExprId written, const std::string &name,
                             const nlohmann::ordered_json &schema);
  StatusOr<ExprId> value(const ToolFormat &form, const Tool &tool,
                         const std::string &name,
                         const nlohmann::ordered_json &schema);
  StatusOr<ExprId> plainText(const Tool &tool, const std::string &name,
                             nlohmann::ordered_json schema,
                             const std::string &close);
  static void addDefinitions(const Tool &tool, nlohmann::ordered_json &schema);
  /// A value as JSON, or in Python's notation.
  StatusOr<ExprId> writtenValue(const Tool &tool, const std::string &name,
                                nlohmann::ordered_json schema, bool isPython);
  ExprId text(std::string_view mark);
  StatusOr<ExprId> schemaExpr(const Tool &tool,
                              const nlohmann::ordered_json &schema,
                              ExprId otherwise, std::string_view place,
                              const JsonTextOptions &notation = {});
  enum class Free { Begin, End, Both };
  ExprId mark(std::string_view bytes, Free free = Free::Both);

  static const JsonTextOptions &python();
  static const JsonTextOptions &bare();

  Grammar &grammar_;
  const std::vector<Tool> &tools_;
  bool mustHold_;
  const Deadline deadline_;
  JsonText json_, python_, bare_;
  int texts_ = 0, schemas_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CALLGRAMMAR_H
