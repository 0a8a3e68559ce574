#include "test/support/ModelRecipe.h"

#include "runtime/base/Text.h"
#include "test/support/Draw.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

using moek::Format;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moetest {

namespace {

using Words = std::vector<std::string>;

Status invalid(std::string message) {
  return {StatusCode::InvalidFile, std::move(message)};
}

/// The whole of `word` as a T, rounded once.
template <typename T> StatusOr<T> numberOf(std::string_view word) {
  if constexpr (std::is_same_v<T, bool>) {
    if (word == "true" || word == "false")
      return word == "true";
    return invalid(moert::quoted(word) + " is not true or false");
  } else {
    T value = {};
    auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size())
      return invalid(moert::quoted(word) + " is not a number that fits here");
    return value;
  }
}

template <typename T> StatusOr<std::vector<T>> numbersOf(const Words &words) {
  std::vector<T> numbers;
  for (const std::string &word : words) {
    MOE_ASSIGN_OR_RETURN(T number, numberOf<T>(word));
    numbers.push_back(number);
  }
  return numbers;
}

/// "3 1*4" is 3 1 1 1 1.
StatusOr<Words> repeated(const Words &words) {
  Words all;
  for (const std::string &word : words) {
    size_t star = word.find('*');
    uint64_t count = 1;
    if (star != std::string::npos) {
      MOE_ASSIGN_OR_RETURN(count, numberOf<uint64_t>(word.substr(star + 1)));
    }
    all.insert(all.end(), count, word.substr(0, star));
  }
  return all;
}

std::string joined(const Words &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

/// The words that "a{0..2}b" or "a{0,2}b" stand for, in the order of the first
/// list, then of the second. Other braces are text.
Words expanded(const std::string &word) {
  size_t open = word.find('{'), close = word.find('}', open);
  if (open == std::string::npos || close == std::string::npos)
    return {word};
  std::string inside = word.substr(open + 1, close - open - 1);
  std::vector<uint64_t> numbers;
  if (size_t dots = inside.find(".."); dots != std::string::npos) {
    auto first = numberOf<uint64_t>(inside.substr(0, dots));
    auto last = numberOf<uint64_t>(inside.substr(dots + 2));
    if (!first || !last)
      return {word};
    for (uint64_t number = *first; number <= *last; ++number)
      numbers.push_back(number);
  } else {
    std::istringstream list(inside);
    for (std::string item; std::getline(list, item, ',');) {
      auto number = numberOf<uint64_t>(item);
      if (!number)
        return {word};
      numbers.push_back(*number);
    }
  }
  Words all;
  for (uint64_t number : numbers)
    for (const std::string &rest : expanded(word.substr(close + 1)))
      all.push_back(word.substr(0, open) + std::to_string(number) + rest);
  return all;
}

StatusOr<Format> formatOf(std::string_view name) {
  for (uint32_t number = 0; number < 256; ++number)
    if (std::optional<Format> format = moek::formatFromNumber(number);
        format && moek::formatInfo(*format).name == name)
      return *format;
  return invalid(moert::quoted(name) + " is no tensor format");
}

StatusOr<Distribution> distributionOf(const std::string &kind,
                                      const Words &words) {
  struct Known {
    std::string_view name;
    Distribution::Kind kind;
    size_t numbers; ///< Number of values; 0: any number.
  };
  static constexpr Known known[] = {{"normal", Distribution::Normal, 2},
                                    {"gain", Distribution::Gain, 1},
                                    {"uniform", Distribution::Uniform, 2},
                                    {"values", Distribution::Values, 0},
                                    {"choices", Distribution::Choices, 1},
                                    {"codes", Distribution::Codes, 2}};
  for (const Known &each : known) {
    if (each.name != kind)
      continue;
    MOE_ASSIGN_OR_RETURN(Words all, repeated(words));
    if (each.numbers && all.size() != each.numbers)
      return invalid(kind + " takes " + moert::counted(each.numbers, "number") +
                     ", not " + std::to_string(all.size()));
    MOE_ASSIGN_OR_RETURN(std::vector<double> numbers, numbersOf<double>(all));
    return Distribution{each.kind, std::move(numbers)};
  }
  return invalid(moert::quoted(kind) + " is no distribution");
}

class Reader {
public:
  Status read(const std::filesystem::path &path) {
    std::ifstream file(path);
    if (!file)
      return {StatusCode::Io, path.string() + ": cannot be read"};
    std::string line, statement;
    for (unsigned number = 1; std::getline(file, line); ++number) {
      if (!line.empty() && line.back() == '\\') {
        statement += line.substr(0, line.size() - 1) + " ";
        continue;
      }
      statement += line;
      MOE_RETURN_IF_ERROR(
          run(statement, path.parent_path())
              .at(path.string() + ":" + std::to_string(number)));
      statement.clear();
    }
    if (!statement.empty())
      return invalid(path.string() + " ends in a backslash");
    return {};
  }

  GgufBuilder take() { return std::move(gguf_); }

private:
  Status run(const std::string &statement,
             const std::filesystem::path &folder) {
    std::istringstream text(statement);
    Words words;
    for (std::string word; text >> word;) {
      if (words.empty() && word.front() == '#')
        return {};
      MOE_ASSIGN_OR_RETURN(word, substituted(word));
      words.push_back(std::move(word));
    }
    if (words.empty())
      return {};
    std::string verb = words.front();
    words.erase(words.begin());
    auto is = [&](std::string_view name, size_t least) {
      return verb == name && words.size() >= least;
    };
    if (is("seed", 1)) {
      MOE_ASSIGN_OR_RETURN(seed_, numberOf<uint64_t>(words[0]));
      return {};
    }
    if (is("let", 2)) {
      variables_[words[0]] = words[1];
      return {};
    }
    if (is("include", 1))
      return read(folder / words[0]);
    if (is("architecture", 1)) {
      architecture_ = words[0];
      gguf_.add("general.architecture", architecture_);
      return {};
    }
    if (is("key", 3))
      return addKey(words[0], words[1], {words.begin() + 2, words.end()});
    if (is("tensor", 4))
      return addTensors(words);
    return invalid(moert::quoted(verb) + " with " +
                   moert::counted(words.size(), "word") + " is no statement");
  }

  /// `word` with the values of variables for "$name". A dollar alone is text.
  StatusOr<std::string> substituted(const std::string &word) const {
    std::string result;
    for (size_t at = 0; at < word.size();) {
      size_t end = at + 1;
      while (end < word.size() &&
             std::isalpha(static_cast<unsigned char>(word[end])))
        ++end;
      if (word[at] != '$' || end == at + 1) {
        result += word[at++];
        continue;
      }
      auto found = variables_.find(word.substr(at + 1, end - at - 1));
      if (found == variables_.end())
        return invalid("nothing was said before about " +
                       word.substr(at, end - at));
      result += found->second;
      at = end;
    }
    return result;
  }

  Status addKey(const std::string &name, const std::string &typeWord,
                const Words &words) {
    std::string key = name.front() == '.' ? architecture_ + name : name;
    size_t bracket = typeWord.find('[');
    std::string type = typeWord.substr(0, bracket);
    if (bracket == std::string::npos)
      return addScalar(key, type, words);
    if (type == "text") {
      gguf_.addStrings(key, {joined(words)});
      return {};
    }
    Words values = words;
    if (type != "string") {
      MOE_ASSIGN_OR_RETURN(values, repeated(words));
    } else {
      values.clear();
      for (const std::string &word : words)
        for (std::string &each : expanded(word))
          values.push_back(std::move(each));
    }
    std::string size = typeWord.substr(bracket + 1);
    if (size != "]") {
      MOE_ASSIGN_OR_RETURN(size_t count,
                           numberOf<size_t>(size.substr(0, size.size() - 1)));
      if (values.size() < count)
        return invalid("there are " + std::to_string(values.size()) +
                       " values of " + std::to_string(count));
      values.resize(count);
    }
    return addArray(key, type, values);
  }

  Status addScalar(const std::string &key, const std::string &type,
                   const Words &words) {
    if (type == "string") {
      gguf_.add(key, joined(words));
      return {};
    }
    return byType(type, [&]<typename T>(T) -> Status {
      MOE_ASSIGN_OR_RETURN(T value, numberOf<T>(words[0]));
      gguf_.add(key, value);
      return {};
    });
  }

  Status addArray(const std::string &key, const std::string &type,
                  const Words &words) {
    if (type == "string") {
      gguf_.addStrings(key, words);
      return {};
    }
    return byType(type, [&]<typename T>(T) -> Status {
      MOE_ASSIGN_OR_RETURN(std::vector<T> values, numbersOf<T>(words));
      gguf_.addArray(key, values);
      return {};
    });
  }

  /// Calls `function` with a number of the named type.
  template <typename F>
  static Status byType(const std::string &type, F function) {
    if (type == "u32")
      return function(uint32_t());
    if (type == "i32")
      return function(int32_t());
    if (type == "u64")
      return function(uint64_t());
    if (type == "f32")
      return function(float());
    if (type == "bool")
      return function(bool());
    return invalid(moert::quoted(type) +
                   " is no type of a key: u32, i32, u64, f32, bool or string");
  }

  Status addTensors(const Words &words) {
    MOE_ASSIGN_OR_RETURN(Format format, formatOf(words[1]));
    std::vector<uint64_t> shape;
    std::istringstream sizes(words[2]);
    uint64_t elements = 1;
    for (std::string size; std::getline(sizes, size, ',');) {
      MOE_ASSIGN_OR_RETURN(uint64_t number, numberOf<uint64_t>(size));
      elements *= number;
      // A unit model is small; the bound keeps a typing error from filling
      // memory.
      if (number == 0 || number > 1 << 24 || elements > 1 << 24)
        return invalid(words[2] + " is no shape of a small tensor");
      shape.push_back(number);
    }
    if (shape[0] % moek::formatInfo(format).blockElements)
      return invalid(words[1] + " needs rows of a multiple of " +
                     std::to_string(moek::formatInfo(format).blockElements));
    MOE_ASSIGN_OR_RETURN(
        Distribution distribution,
        distributionOf(words[3], {words.begin() + 4, words.end()}));
    for (const std::string &name : expanded(words[0])) {
      MOE_ASSIGN_OR_RETURN(Bytes bytes,
                           draw(seed_, name, format, shape, distribution));
      gguf_.addTensor(name, format, shape, std::move(bytes));
    }
    return {};
  }

  GgufBuilder gguf_;
  uint64_t seed_ = 0;
  std::string architecture_;
  std::map<std::string, std::string> variables_;
};

} // namespace

StatusOr<GgufBuilder> modelOfRecipe(const std::string &path) {
  Reader reader;
  MOE_RETURN_IF_ERROR(reader.read(path));
  return reader.take();
}

} // namespace moetest
