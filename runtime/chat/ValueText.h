//===- ValueText.h - Values that are not written as JSON --------*- C++ -*-===//
//
// Some families write arguments in notations of their own. Each function
// converts one to JSON, and gives nothing for text that is none of it or is
// nested deeper than JsonScanner::kMostNesting.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_VALUETEXT_H
#define MOE_RUNTIME_CHAT_VALUETEXT_H

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// Gemma's: keys have no quotes, and strings stand between two marks, as in
/// {city:<|"|>Bern<|"|>,days:3}.
std::optional<std::string> jsonOfBare(std::string_view text);
/// The mark around such strings.
inline constexpr std::string_view kBareQuote = "<|\"|>";

/// Python's literals: {'city': 'Bern', 'now': True, 'at': None}. Templates put
/// texts between quotes as they are: a quote ends a string only where a value
/// can end.
std::optional<std::string> jsonOfPython(std::string_view text);
/// The arguments of a call in Python's notation as an object: city='Bern',
/// days=3.
std::optional<std::string> jsonOfKeywords(std::string_view text);

/// Finds the bracket that closes such a call while its text arrives.
class KeywordScanner {
public:
  /// Returns the position of the closing quote in `text`, which begins behind
  /// the opening one and goes on from the text of the call before; npos if the
  /// quote has not come.
  size_t find(std::string_view text);

private:
  size_t at_ = 0, depth_ = 0;
  char quote_ = 0; ///< Quote of the string around `at_`; 0: not in a string.
};

/// MiniMax M3's: members between marks of their names, items between those of
/// "item", all with `prefix` in front: P<city>BernP</city>. `schema`, whose
/// references are to `root`, tells the types of what is inside (valueJson()).
std::optional<std::string> jsonOfNested(std::string_view text,
                                        std::string_view prefix,
                                        const nlohmann::ordered_json &schema,
                                        const nlohmann::ordered_json &root);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_VALUETEXT_H
