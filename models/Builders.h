//===- Builders.h - The builder functions of architectures ------*- C++ -*-===//

#ifndef MOE_MODELS_BUILDERS_H
#define MOE_MODELS_BUILDERS_H

#include "models/ModelBuilder.h"

namespace moec {

#define MOE_ARCHITECTURE(name, builder, models)                                \
  moert::Status builder(ModelBuilder &model);
#include "models/Architectures.def"

} // namespace moec

#endif // MOE_MODELS_BUILDERS_H
