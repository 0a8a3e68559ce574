//===- MarkText.h - Compares what a template writes -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_MARKTEXT_H
#define MOE_RUNTIME_CHAT_MARKTEXT_H

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Splits a text into parts that are in a mark as a whole or not at all:
/// control tokens (controlBytes() of StreamDecoder.h), tags such as <think> and
/// [ARGS], sections such as <|open|>think<|sep|>, and single characters.
std::vector<std::string_view> atomsOf(std::string_view text);

/// Whether a mark has a part that texts hardly have: one of several characters.
bool hasTag(std::string_view mark);

/// The longest beginning, or end, in whole atoms, that two texts share.
std::string_view commonBegin(std::string_view text, std::string_view other);
std::string_view commonEnd(std::string_view text, std::string_view other);

/// The mark that opens what `mark` closes, and the other way round: <a> and
/// </a>, [A] and [/A], <|START_A|> and <|END_A|>, <|open|>a<|sep|> and
/// <|close|>a<|sep|>, and the like; "" if it is none of these.
std::string openerOf(std::string_view mark);
std::string closerOf(std::string_view mark);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_MARKTEXT_H
