#include "runtime/constrain/Formats.h"

#include <map>

namespace moert {

namespace {
/// Dates that exist: RFC 3339 with the days of each month, and with February 29
/// in leap years. There is no year 0000.
#define MOE_LEAP                                                               \
  "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|"                              \
  "(?:0[48]|[2468][048]|[13579][26])00)"
#define MOE_ANY_YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define MOE_DATE                                                               \
  "(?:" MOE_ANY_YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"      \
  "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"         \
  "|" MOE_LEAP "-02-29)"
#define MOE_TIME                                                               \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?"                   \
  "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define MOE_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define MOE_IPV4 MOE_BYTE "(?:\\." MOE_BYTE "){3}"
#define MOE_H16 "[0-9A-Fa-f]{1,4}"
#define MOE_LS32 "(?:" MOE_H16 ":" MOE_H16 "|" MOE_IPV4 ")"
/// RFC 3986, section 3.2.2.
#define MOE_IPV6                                                               \
  "(?:(?:" MOE_H16 ":){6}" MOE_LS32 "|::(?:" MOE_H16 ":){5}" MOE_LS32          \
  "|(?:" MOE_H16 ")?::(?:" MOE_H16 ":){4}" MOE_LS32 "|(?:(?:" MOE_H16          \
  ":){0,1}" MOE_H16 ")?::(?:" MOE_H16 ":){3}" MOE_LS32 "|(?:(?:" MOE_H16       \
  ":){0,2}" MOE_H16 ")?::(?:" MOE_H16 ":){2}" MOE_LS32 "|(?:(?:" MOE_H16       \
  ":){0,3}" MOE_H16 ")?::" MOE_H16 ":" MOE_LS32 "|(?:(?:" MOE_H16              \
  ":){0,4}" MOE_H16 ")?::" MOE_LS32 "|(?:(?:" MOE_H16 ":){0,5}" MOE_H16        \
  ")?::" MOE_H16 "|(?:(?:" MOE_H16 ":){0,6}" MOE_H16 ")?::)"
/// RFC 3986 and RFC 3987, by the characters that may stand for themselves.
#define MOE_CHARS "A-Za-z0-9\\-._~!$&'()*+,;=:@"
#define MOE_ESCAPE "%[0-9A-Fa-f]{2}"
#define MOE_WIDE                                                               \
  "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{EFFFD}"
#define MOE_HIER(more)                                                         \
  "(?://(?:(?:[A-Za-z0-9\\-._~!$&'()*+,;=:" more "]|" MOE_ESCAPE               \
  ")*@)?(?:\\[(?:" MOE_IPV6                                                    \
  "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9\\-._~!$&'()*+,;=:]+)\\]|"                    \
  "(?:[A-Za-z0-9\\-._~!$&'()*+,;=" more "]|" MOE_ESCAPE                        \
  ")*)(?::[0-9]*)?(?:/" MOE_SEGMENT(more) ")*"
#define MOE_SEGMENT(more) "(?:[" MOE_CHARS more "]|" MOE_ESCAPE ")*"
#define MOE_SEGMENT_1(more) "(?:[" MOE_CHARS more "]|" MOE_ESCAPE ")+"
#define MOE_TAIL(more)                                                         \
  "(?:\\?(?:[" MOE_CHARS "/?" more "]|" MOE_ESCAPE ")*)?"                      \
  "(?:#(?:[" MOE_CHARS "/?" more "]|" MOE_ESCAPE ")*)?"
#define MOE_ABSOLUTE_PATH(more)                                                \
  "/(?:" MOE_SEGMENT_1(more) "(?:/" MOE_SEGMENT(more) ")*)?"
#define MOE_ROOTLESS(more) MOE_SEGMENT_1(more) "(?:/" MOE_SEGMENT(more) ")*"
#define MOE_URI(more)                                                          \
  "(?:[A-Za-z][A-Za-z0-9+.\\-]*:(?:" MOE_HIER(more) "|" MOE_ABSOLUTE_PATH(     \
      more) "|" MOE_ROOTLESS(more) ")?)" MOE_TAIL(more) ")"
#define MOE_RELATIVE(more)                                                     \
  "(?:(?:" MOE_HIER(more) "|" MOE_ABSOLUTE_PATH(                               \
      more) "|(?:[A-Za-z0-9\\-._~!$&'()*+,;=@" more "]|" MOE_ESCAPE            \
            ")+(?:/" MOE_SEGMENT(more) ")*)?)" MOE_TAIL(more) ")"
#define MOE_LABEL "[A-Za-z0-9](?:[A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?"
#define MOE_POINTER "(?:/(?:[^/~]|~[01])*)*"
#define MOE_DURATION_TIME                                                      \
  "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"

struct Format {
  std::string_view name, pattern;
};
constexpr Format kFormats[] = {
    {"date", MOE_DATE},
    {"time", MOE_TIME},
    {"date-time", MOE_DATE "[Tt]" MOE_TIME},
    {"duration",
     "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|"
     "[0-9]+D)(?:" MOE_DURATION_TIME ")?|" MOE_DURATION_TIME ")"},
    {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
    {"ipv4", MOE_IPV4},
    {"ipv6", MOE_IPV6},
    // Programs do not agree about more than this.
    {"email", "[^@]*@[^]*"},
    {"idn-email", "[^@]*@[^]*"},
    {"hostname", MOE_LABEL "(?:\\." MOE_LABEL ")*"},
    {"uri", MOE_URI("")},
    {"uri-reference", "(?:" MOE_URI("") "|" MOE_RELATIVE("") ")"},
    {"iri", MOE_URI(MOE_WIDE)},
    {"iri-reference", "(?:" MOE_URI(MOE_WIDE) "|" MOE_RELATIVE(MOE_WIDE) ")"},
    {"uri-template",
     "(?:[^\\x00-\\x20\"'<>\\\\^`{|}%]|%[0-9A-Fa-f]{2}|"
     "\\{[+#./;?&=,!@|]?[A-Za-z0-9_.%]+(?:\\*|:[1-9][0-9]{0,3})?"
     "(?:,[A-Za-z0-9_.%]+(?:\\*|:[1-9][0-9]{0,3})?)*\\})*"},
    {"json-pointer", MOE_POINTER},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" MOE_POINTER ")"}};
} // namespace

const Pattern *patternOfFormat(std::string_view name) {
  static const std::map<std::string_view, Pattern> patterns = [] {
    std::map<std::string_view, Pattern> all;
    for (const Format &format : kFormats)
      if (auto pattern = parsePattern(format.pattern, RegexMatch::Whole))
        all.emplace(format.name, *std::move(pattern));
    return all;
  }();
  auto it = patterns.find(name);
  return it == patterns.end() ? nullptr : &it->second;
}

} // namespace moert
