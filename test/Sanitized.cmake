# The compiler under AddressSanitizer and UBSan, nightly: a build of its own (by
# hand: the preset asan-compiler) in which the lit suites and the compiler's
# GoogleTests run. The first one takes half an hour of two cores.
add_custom_target(compiler_tests DEPENDS moec moe-opt moert moe-shape-model test_data)
if(TARGET moert-soft)
  add_dependencies(compiler_tests moert-soft)
endif()
foreach(tests moe_rope_tests moe_serialize_tests moe_model_tests moec_target_tests moec_native_tests moec_compile_tests)
  add_dependencies(compiler_tests ${tests})
endforeach()
if(NOT MOE_SANITIZE)
  add_test(NAME compiler-sanitized-nightly
    COMMAND ${CMAKE_CTEST_COMMAND}
      --build-and-test ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/asan-compiler
      --build-generator ${CMAKE_GENERATOR} --build-noclean --build-target compiler_tests
      --build-options -DCMAKE_BUILD_TYPE=Sanitized -DMOE_SANITIZE=address,undefined
      --test-command ${CMAKE_CTEST_COMMAND} --output-on-failure -L compiler)
  set_tests_properties(compiler-sanitized-nightly PROPERTIES LABELS nightly TIMEOUT 14400)
endif()
