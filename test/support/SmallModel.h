//===- SmallModel.h - A small plan, with float64 results --------*- C++ -*-===//
//
// Common code of tests of whole plans: weights with random values, used both
// for the plan and, in double, for the reference that it is compared with.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_SMALLMODEL_H
#define MOE_TEST_SUPPORT_SMALLMODEL_H

#include "test/support/PlanBuilder.h"

#include <map>

namespace moetest {

using Tokens = std::vector<int32_t>;

/// Returns `count` tokens below `vocab` that depend on `seed`.
Tokens tokensOf(uint32_t seed, int32_t count, int32_t vocab);

class SmallModel {
public:
  using Values = std::vector<double>;

  PlanBuilder builder;
  std::map<std::string, Ref> refs; ///< Weights and other operands by name.

  /// Returns the first `op` of the phase "decode", which is the first phase.
  fb::InstructionT &decode(const std::string &op);
  fb::WeightT &weightNamed(const std::string &name) {
    return *builder.plan.weights[refs.at(name).index];
  }

protected:
  /// Creates the weights "embed" [vocab, hidden] and "norm" [hidden]. Weights
  /// are uniform over a range of 1, with mean `center` unless another is given.
  SmallModel(int32_t hidden, int32_t vocab, int32_t context,
             const std::string &isa, double eps, double center = 0);

  void weight(const std::string &name, const std::vector<int64_t> &shape) {
    weight(name, shape, center_);
  }
  void weight(const std::string &name, const std::vector<int64_t> &shape,
              double center);
  /// Adds the phase "logits" for up to three rows, with the weight "out"
  /// [vocab, hidden]. Must be called after all others.
  void head();

  double at(const std::string &name, int64_t i) const {
    return numbers_.at(name)[size_t(i)];
  }
  static void add(Values &to, const Values &x);
  static double sigmoid(double x);
  Values embedded(int32_t token) const;
  /// Returns the product of matrix `index` of a weight with x.
  Values product(const std::string &name, const Values &x,
                 int64_t index = 0) const;
  /// Returns the root mean square norm with the weight "norm".
  Values norm(Values x) const;

private:
  int32_t hidden_, vocab_;
  double eps_, center_;
  std::map<std::string, std::vector<float>> numbers_;
  uint64_t state_ = 7;
};

/// Expects values within 1e-5 of the largest.
void expectRow(std::span<const float> actual,
               const SmallModel::Values &expected);

/// Expects that an engine refuses the plan with `message`.
void expectRefused(PlanBuilder &plan, std::string_view message);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_SMALLMODEL_H
