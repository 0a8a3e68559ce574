# MLIR 19 as Debian packages it, linked through libMLIR only: mixing in the
# static archives would duplicate its core.
find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(moe_mlir INTERFACE)
target_include_directories(moe_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_link_libraries(moe_mlir INTERFACE MLIR LLVM-19)
if(MOE_SANITIZE MATCHES "address")
  # In programs themselves: nothing would take it from a library.
  target_sources(moe_mlir INTERFACE
    "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${CMAKE_CURRENT_LIST_DIR}/AsanOptions.cpp>")
endif()

# MLIR's headers, parsed once: half of what a file that includes them costs.
moe_add_headers(moe_mlir_headers ${CMAKE_CURRENT_LIST_DIR}/MlirHeaders.h LINK moe_mlir)

# moe_add_mlir_library(name ...): moe_add_library of files that include MLIR, whose
# names are not hidden by mlir::ModuleOp.
function(moe_add_mlir_library name)
  moe_add_library(${name} ${ARGN})
  target_precompile_headers(${name} REUSE_FROM moe_mlir_headers)
endfunction()

# moe_tablegen(target definitions output generator [output generator ...])
# A generator of several words is one quoted string: "-gen-x -dialect=y".
function(moe_tablegen target definitions)
  include_directories(${MLIR_INCLUDE_DIRS})
  set(LLVM_TARGET_DEFINITIONS ${definitions})
  while(ARGN)
    list(POP_FRONT ARGN output generator)
    separate_arguments(generator)
    mlir_tablegen(${output} ${generator} -I${PROJECT_SOURCE_DIR})
  endwhile()
  add_public_tablegen_target(${target})
endfunction()
