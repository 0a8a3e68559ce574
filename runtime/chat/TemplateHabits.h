//===- TemplateHabits.h - How a template takes conversations ----*- C++ -*-===//
//
// Chat templates differ in what they accept: some raise an exception for a
// second system message, some leave out the text beside a call, some want ids
// of nine letters. What a template does is found by rendering small
// conversations with it, whose texts are words that occur nowhere else, and by
// looking for these words in the result. No template is known by its name.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_TEMPLATEHABITS_H
#define MOE_RUNTIME_CHAT_TEMPLATEHABITS_H

#include "runtime/base/Status.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace moert {

/// A template takes a conversation if it renders it and all texts of the
/// messages are in the result, in their order.
struct TemplateHabits {
  /// Contents are lists of parts {"type": "text", "text": ...}, not strings.
  bool wantsParts = false;

  /// Without tools, `tools` is an empty list, not null.
  bool wantsToolList = false;
  /// Each parameter of a tool has a description, if only "".
  bool wantsDescriptions = false;
  /// A parameter that is a list has `items`, and one that is an object has
  /// `additionalProperties`, if only {}.
  bool wantsInnerSchemas = false;
  /// The type of a parameter is never null, which some write without end.
  bool wantsNoNullTypes = false;

  /// The role of instructions in front of all messages: "system", "developer",
  /// or "" if the template takes none of them.
  std::string systemRole = "system";
  /// Several system messages in front of all others.
  bool takesSystemsInARow = true;
  bool takesLateSystem = true; ///< A system message after others, anywhere.
  /// System messages without a message of the user.
  bool takesSystemAlone = true;

  bool takesAssistantFirst = true;
  bool takesUsersInARow = true;
  bool takesAssistantsInARow = true;

  /// Calls of tools and their results; otherwise both have to be text.
  bool takesCalls = true;
  /// The content beside a call is null where there is none.
  bool wantsNullBesideCall = false;
  /// Arguments are JSON objects; otherwise their JSON text.
  bool takesObjects = true;
  /// Arguments may be a text that is no JSON.
  bool takesBrokenArguments = true;
  enum class Ids {
    Any,
    Nine, ///< Nine letters or digits.
    Name, ///< "functions.NAME:NUMBER": the id says the name of the tool.
  };
  Ids ids = Ids::Any;
  bool takesSeveralCalls = true; ///< Several calls in one message.
  bool takesTextBesideCall = true;
  /// A call in the assistant's message that follows a text.
  bool takesCallAfterText = true;
  bool takesUserAfterTool = true;
  bool takesLooseResults = true; ///< Results without a call before them.

  /// The members of an assistant's message that have its reasoning.
  std::vector<std::string> reasoningNames = {"reasoning_content", "thinking",
                                             "reasoning"};

  /// The habits of a template that takes nothing but alternating texts of user
  /// and assistant, beginning with the user's.
  static TemplateHabits plainest();
};

/// Renders the variables of a template: an object with `messages` and others.
using RenderVariables =
    std::function<StatusOr<std::string>(const nlohmann::ordered_json &)>;

/// Gives the schema of a tool's parameter the members that the template counts
/// on and that have no effect.
void fitParameter(nlohmann::ordered_json &parameter,
                  const TemplateHabits &habits);

/// The habits of a template, with or without tools: some write calls only
/// beside the tools.
TemplateHabits habitsOf(const RenderVariables &render, bool hasTools);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_TEMPLATEHABITS_H
