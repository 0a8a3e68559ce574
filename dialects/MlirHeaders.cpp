// What MlirHeaders.h, precompiled, is compiled for.
