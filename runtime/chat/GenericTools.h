//===- GenericTools.h - Tools for templates that know none ------*- C++ -*-===//
//
// Some chat templates have no form for calls of tools, or do not tell their
// model of them (Speech::knowsTools()). Such models are told of the tools in
// words, in the system message:
//
//   # Tools
//   ... Each line is a tool that you may call, as JSON: ...
//   {"name": "add", "description": "...", "parameters": {...}}
//   To call one, write its name and its arguments as JSON between these marks:
//   <tool_call>
//   {"name": "NAME", "arguments": {...}}
//   </tool_call>
//
// What tools answered stands between <tool_response> and </tool_response> in a
// message of the user. The reply is held to a grammar in which only calls of
// these tools follow the mark.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_GENERICTOOLS_H
#define MOE_RUNTIME_CHAT_GENERICTOOLS_H

#include "runtime/chat/Messages.h"
#include "runtime/chat/ToolFormat.h"

#include <vector>

namespace moert {

/// The form in which such models write calls.
const ToolFormat &genericToolFormat();

/// Rewrites a conversation for such a template: an instruction in front of the
/// messages describes the tools, and calls and their results become text. With
/// `isRequired` the instruction says that the reply must call a tool. For
/// templates that take no instructions, use fitMessages() afterwards.
Messages withGenericTools(Messages messages, const std::vector<Tool> &tools,
                          bool isRequired);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_GENERICTOOLS_H
