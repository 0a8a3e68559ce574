// Chat templates: the source, a byte 0, and the variables as JSON. Limits bound
// what any template does.
#include "runtime/text/ChatTemplate.h"
#include "test/fuzz/Fuzz.h"

using moefuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  moefuzz::Input input(data, size);
  const std::string_view source = input.textBefore('\0');
  auto parsed = moert::ChatTemplate::parse(source);
  if (!parsed) {
    require(!parsed.status().message().empty(), "an error has a message");
    return 0;
  }
  std::string variables(input.rest());
  if (variables.empty())
    variables = R"({"messages":[{"role":"user","content":"a<b"},
      {"role":"assistant","content":null,"tool_calls":[{"function":
      {"name":"f","arguments":{"x":[1,2.5,true]}}}]}],"tools":[],
      "add_generation_prompt":true,
      "strftime_now":"2024-05-06 07:08:09"})";
  auto text = parsed->render({.json = variables});
  if (!text)
    require(!text.status().message().empty(), "an error has a message");
  return 0;
}
