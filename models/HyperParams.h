//===- HyperParams.h - A model's numbers, checked ---------------*- C++ -*-===//

#ifndef MOE_MODELS_HYPERPARAMS_H
#define MOE_MODELS_HYPERPARAMS_H

#include "compiler/Import/GgufFile.h"

namespace moec {

/// Reads the keys `<architecture>.<name>`. Without a fallback a missing key is
/// an error; a value of another type or outside its range always is. Messages
/// name file, byte offset, key, expected and found.
class HyperParams {
public:
  explicit HyperParams(const GgufModel &model) : model_(model) {}

  /// An integer, low <= value <= high.
  moert::StatusOr<int64_t> integer(std::string_view name, int64_t low,
                                   int64_t high,
                                   std::optional<int64_t> fallback = {}) const;
  /// Likewise of layer `layer`, where the key has a number for all layers or an
  /// array of one for each.
  moert::StatusOr<int64_t> ofLayer(std::string_view name, int64_t layer,
                                   int64_t low, int64_t high) const;
  /// One of an array of flags, one for each layer.
  moert::StatusOr<bool> flagOfLayer(std::string_view name, int64_t layer) const;
  /// The flag of a layer, where the key has an array of one for each; otherwise
  /// whether the layer is not the last of every `period`, for which the key may
  /// have another number.
  moert::StatusOr<bool> inPeriod(std::string_view name, int64_t layer,
                                 int64_t period) const;
  /// A finite number above zero, or from zero with `zeroToo`, also as a float,
  /// which is what kernels take.
  moert::StatusOr<double> positive(std::string_view name,
                                   std::optional<double> fallback = {},
                                   bool zeroToo = false) const;
  /// A number, low <= value <= high.
  moert::StatusOr<double> within(std::string_view name, double low, double high,
                                 std::optional<double> fallback = {}) const;
  /// A finite number above zero of layer `layer`, where the key has a number
  /// for all layers or an array of one for each.
  moert::StatusOr<double> positiveOfLayer(std::string_view name,
                                          int64_t layer) const;
  moert::StatusOr<bool> flag(std::string_view name, bool fallback) const;
  moert::StatusOr<std::string> text(std::string_view name,
                                    std::string_view fallback) const;

  bool has(std::string_view name) const;
  /// A failure that is about the value of the key: "<file>: byte <offset>: key
  /// "<key>" <message>".
  moert::Status error(moert::StatusCode code, std::string_view name,
                      std::string_view message) const;

private:
  std::string key(std::string_view name) const;
  /// Any number.
  moert::StatusOr<double> real(std::string_view name,
                               std::optional<double> fallback) const;
  /// Element `index` of the array under the key.
  moert::StatusOr<int64_t> element(std::string_view name, GgufType type,
                                   int64_t index) const;

  const GgufModel &model_;
};

} // namespace moec

#endif // MOE_MODELS_HYPERPARAMS_H
