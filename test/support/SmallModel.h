//===- SmallModel.h - A model in F32 by hand and in float64 -----*- C++ -*-===//
//
// What tests of whole plans share: weights of random values, of which both the
// plan is made and, in double, what it is held against.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_SMALLMODEL_H
#define MOE_TEST_SUPPORT_SMALLMODEL_H

#include "test/support/PlanBuilder.h"

#include <map>

namespace moetest {

using Tokens = std::vector<int32_t>;

/// `count` tokens below `vocab` that depend on `seed`.
Tokens tokensOf(uint32_t seed, int32_t count, int32_t vocab);

class SmallModel {
public:
  using Values = std::vector<double>;

  PlanBuilder builder;
  std::map<std::string, Ref> refs; ///< Weights and what else is added by name.

  /// The first `op` of the phase "decode", which is the first.
  fb::InstructionT &decode(const std::string &op);
  fb::WeightT &weightNamed(const std::string &name) {
    return *builder.plan.weights[refs.at(name).index];
  }

protected:
  /// Has the weights "embed" [vocab, hidden] and "norm" [hidden]. Weights are
  /// spread evenly over 1, with `center` as their mean where none is given.
  SmallModel(int32_t hidden, int32_t vocab, int32_t context,
             const std::string &isa, double eps, double center = 0);

  void weight(const std::string &name, const std::vector<int64_t> &shape) {
    weight(name, shape, center_);
  }
  void weight(const std::string &name, const std::vector<int64_t> &shape,
              double center);
  /// The phase "logits", of up to three rows, with the weight "out" [vocab,
  /// hidden]; after all others.
  void head();

  double at(const std::string &name, int64_t i) const {
    return numbers_.at(name)[size_t(i)];
  }
  static void add(Values &to, const Values &x);
  static double sigmoid(double x);
  Values embedded(int32_t token) const;
  /// Of the matrix `index` of a weight, times x.
  Values product(const std::string &name, const Values &x,
                 int64_t index = 0) const;
  /// Root mean square norm with the weight "norm".
  Values norm(Values x) const;

private:
  int32_t hidden_, vocab_;
  double eps_, center_;
  std::map<std::string, std::vector<float>> numbers_;
  uint64_t state_ = 7;
};

/// Within 1e-5 of the largest, an assertion of GoogleTest.
void expectRow(std::span<const float> actual,
               const SmallModel::Values &expected);

/// That an engine does not open the plan and says `message`.
void expectRefused(PlanBuilder &plan, std::string_view message);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_SMALLMODEL_H
