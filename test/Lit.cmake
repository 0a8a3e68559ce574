# lit and FileCheck of LLVM 19, and the ctest entry `lit` that runs the suites.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_file(MOE_LIT lit.py HINTS ${LLVM_DIR}/../../../build/utils/lit /usr/lib/llvm-19/build/utils/lit)
find_path(MOE_LLVM_TEST_TOOLS FileCheck HINTS ${LLVM_TOOLS_BINARY_DIR} /usr/lib/llvm-19/bin)
if(NOT MOE_LIT OR NOT MOE_LLVM_TEST_TOOLS)
  message(FATAL_ERROR "The tests of the compiler need lit and FileCheck of LLVM 19: install the "
    "package llvm-19-tools, point MOE_LIT at lit.py and MOE_LLVM_TEST_TOOLS at the folder of "
    "FileCheck, or configure with -DMOE_BUILD_TESTS=OFF.")
endif()

configure_file(lit.site.cfg.py.in lit.site.cfg.py @ONLY)
add_test(NAME lit
  COMMAND ${Python3_EXECUTABLE} ${MOE_LIT} -sv
          --xunit-xml-output ${PROJECT_BINARY_DIR}/lit-results.xml
          ${CMAKE_CURRENT_BINARY_DIR})
set_tests_properties(lit PROPERTIES LABELS compiler)

# What lit tests run, for tools/rooms.py.
add_custom_target(lit_tools DEPENDS test_data)
foreach(tool moec moe-opt moert moert-soft moert_shared moe_faults moe-shape-model moe-draw-model moe-token-ids moe-plan-delays
        moe-random-weights moe-accept-texts moe-speech)
  if(TARGET ${tool})
    add_dependencies(lit_tools ${tool})
  endif()
endforeach()
add_test(NAME rooms.cover_everything COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/rooms.py --check)

# Tests that take minutes: REQUIRES: nightly, and "nightly" in their name.
add_test(NAME lit-nightly
  COMMAND ${Python3_EXECUTABLE} ${MOE_LIT} -sv --param nightly=1 --filter nightly ${CMAKE_CURRENT_BINARY_DIR})
set_tests_properties(lit-nightly PROPERTIES LABELS nightly TIMEOUT 3600)

# What lit runs briefly, at length: every string of a model and a plan hostile,
# kills and failures at each system call of a recompilation, runs beside
# recompilations, and random sequences of commands.
add_test(NAME escapes-nightly
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/tools/escapes.py --bin ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    --model ${PROJECT_SOURCE_DIR}/models/tiny-kjv/tiny-kjv-q4_k_m.gguf --work ${CMAKE_CURRENT_BINARY_DIR}/escapes)
set_tests_properties(escapes-nightly PROPERTIES LABELS nightly TIMEOUT 3600)
set(pair --moec ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/moec --moert ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/moert
  --model ${CMAKE_CURRENT_BINARY_DIR}/data/unit/deepseek2-split.gguf)
if(TARGET moe_faults)
  add_test(NAME pair-faults-nightly
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/e2e/pair_faults.py ${pair}
      --library $<TARGET_FILE:moe_faults> --work ${CMAKE_CURRENT_BINARY_DIR}/pair-faults --recover
      --old "--target native --weights pack --mla factored" --new "--target native --weights pack --mla folded")
  set_tests_properties(pair-faults-nightly PROPERTIES LABELS nightly TIMEOUT 3600)
endif()
add_test(NAME pair-race-nightly
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/e2e/pair_race.py ${pair}
    --work ${CMAKE_CURRENT_BINARY_DIR}/pair-race --runs 1000 --compilers 2
    --first "--target native --weights pack --mla factored" --second "--target native --weights pack --mla folded")
set_tests_properties(pair-race-nightly PROPERTIES LABELS nightly TIMEOUT 3600)
add_test(NAME replaced-nightly
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/e2e/replaced.py --bin ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    --data ${CMAKE_CURRENT_BINARY_DIR}/data/unit --work ${CMAKE_CURRENT_BINARY_DIR}/replaced --sequences 500 --seed 2)
set_tests_properties(replaced-nightly PROPERTIES LABELS nightly TIMEOUT 3600)
