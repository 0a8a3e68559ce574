//===- HyperParams.h - Reads a model's hyper-parameters ---------*- C++ -*-===//

#ifndef MOE_MODELS_HYPERPARAMS_H
#define MOE_MODELS_HYPERPARAMS_H

#include "models/UnknownParts.h"

namespace moec {

/// Reads the keys `<architecture>.<name>`. A missing key is an error unless
/// there is a fallback; a value of another type or outside its range always is.
/// Messages name file, byte offset, key, expected and found.
///
/// With `asked`, keys are only asked for: each name is added there, and instead
/// of an error comes the fallback or a number in the range.
class HyperParams {
public:
  explicit HyperParams(const GgufModel &model, AskedParts *asked = nullptr)
      : model_(model), asked_(asked) {}

  /// Returns an integer with low <= value <= high.
  moert::StatusOr<int64_t> integer(std::string_view name, int64_t low,
                                   int64_t high,
                                   std::optional<int64_t> fallback = {}) const;
  /// Returns such an integer for layer `layer`; the key has one number for all
  /// layers, or an array with one per layer.
  moert::StatusOr<int64_t> ofLayer(std::string_view name, int64_t layer,
                                   int64_t low, int64_t high,
                                   std::optional<int64_t> fallback = {}) const;
  /// Returns `count` integers from `low` on, of an array with as many.
  moert::StatusOr<std::vector<int64_t>>
  integers(std::string_view name, int64_t count, int64_t low) const;
  /// Returns all elements of an array, each with low <= value <= high.
  moert::StatusOr<std::vector<int64_t>>
  allIntegers(std::string_view name, int64_t low, int64_t high) const;
  /// Returns a flag from an array with one per layer.
  moert::StatusOr<bool> flagOfLayer(std::string_view name, int64_t layer) const;
  /// Returns the flag of a layer if the key has an array with one per layer.
  /// Otherwise returns whether the layer is not the last of every `period`
  /// layers, or with `first` not the first; the key may have another period.
  moert::StatusOr<bool> inPeriod(std::string_view name, int64_t layer,
                                 int64_t period, bool first = false) const;
  /// Returns a finite number above zero, or with `zeroToo` from zero on. It
  /// must also be so after conversion to float, the type that kernels use.
  moert::StatusOr<double> positive(std::string_view name,
                                   std::optional<double> fallback = {},
                                   bool zeroToo = false) const;
  /// Returns a number with low <= value <= high.
  moert::StatusOr<double> within(std::string_view name, double low, double high,
                                 std::optional<double> fallback = {}) const;
  /// Returns a finite number above zero, or with `zeroToo` from zero on, for
  /// layer `layer`; the key has one number for all layers, or an array with one
  /// per layer.
  moert::StatusOr<double> positiveOfLayer(std::string_view name, int64_t layer,
                                          bool zeroToo = false) const;
  moert::StatusOr<bool> flag(std::string_view name, bool fallback) const;
  moert::StatusOr<std::string> text(std::string_view name,
                                    std::string_view fallback) const;
  /// Returns the texts of an array; none if the key is missing.
  moert::StatusOr<std::vector<std::string>> texts(std::string_view name) const;
  bool has(std::string_view name) const;
  /// Tells whoever collects names that these keys are known, though nothing
  /// that is built depends on them.
  void skip(std::initializer_list<std::string_view> names) const {
    for (std::string_view name : names)
      key(name);
  }
  /// Returns a failure about the value of a key: "<file>: byte <offset>: key
  /// "<key>" <message>".
  moert::Status error(moert::StatusCode code, std::string_view name,
                      std::string_view message) const;

private:
  std::string key(std::string_view name) const;
  /// Returns `value`, or where keys are only asked for, `instead` of an error.
  template <typename T>
  moert::StatusOr<T> settled(moert::StatusOr<T> value, T instead) const {
    return asked_ && !value ? moert::StatusOr<T>(std::move(instead)) : value;
  }
  /// Returns a number without checking that it is positive.
  moert::StatusOr<double> real(std::string_view name,
                               std::optional<double> fallback) const;
  /// Returns element `index` of the array under the key.
  moert::StatusOr<int64_t> element(std::string_view name, GgufType type,
                                   int64_t index) const;

  const GgufModel &model_;
  AskedParts *asked_;
};

} // namespace moec

#endif // MOE_MODELS_HYPERPARAMS_H
