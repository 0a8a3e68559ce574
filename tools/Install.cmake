# What `cmake --install` and cpack take of the tools: programs, man pages,
# completions and documents. The library's part is in tools/libmoert.

# Texts that a tool prints itself, of the tables of its options.
function(moe_add_texts tool)
  set(folder ${PROJECT_BINARY_DIR}/texts)
  set(texts ${folder}/${tool}.1 ${folder}/${tool}.bash ${folder}/_${tool} ${folder}/${tool}.fish)
  add_custom_command(OUTPUT ${texts}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND $<TARGET_FILE:${tool}> help --man > ${folder}/${tool}.1
    COMMAND $<TARGET_FILE:${tool}> completions bash > ${folder}/${tool}.bash
    COMMAND $<TARGET_FILE:${tool}> completions zsh > ${folder}/_${tool}
    COMMAND $<TARGET_FILE:${tool}> completions fish > ${folder}/${tool}.fish
    DEPENDS ${tool} VERBATIM)
  add_custom_target(${tool}_texts ALL DEPENDS ${texts})
  install(FILES ${folder}/${tool}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
  install(FILES ${folder}/${tool}.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${tool} COMPONENT runtime)
  # Debian's zsh looks in vendor-completions, others' in site-functions.
  foreach(functions vendor-completions site-functions)
    install(FILES ${folder}/_${tool} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${functions} COMPONENT runtime)
  endforeach()
  install(FILES ${folder}/${tool}.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT runtime)
endfunction()

set(tools moert)
if(MOE_BUILD_COMPILER)
  list(APPEND tools moec)
endif()
foreach(tool ${tools})
  install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  moe_add_texts(${tool})
endforeach()
if(MOE_BUILD_COMPILER)
  # Debian has libMLIR in a folder of its own. moec's data, such as machines and
  # the sources of GPU kernels, is inside it.
  set_target_properties(moec PROPERTIES INSTALL_RPATH "${LLVM_LIBRARY_DIRS}")
endif()
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/tools/moec.md ${PROJECT_SOURCE_DIR}/tools/moert.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
# By the name that Debian's packages give it.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT runtime)

#===-- Packages ------------------------------------------------------------===#

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME moec)
set(CPACK_PACKAGE_VENDOR "The authors of moec")
set(CPACK_PACKAGE_CONTACT "The authors of moec")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compiler and runtime for mixture-of-experts language models")
set(CPACK_PACKAGE_DESCRIPTION
  "moec compiles a GGUF model for a machine: it decides which device does what, in
which layout and with which kernel, and says how fast that will be. moert runs
what it emits: text, conversations, logits, measurements. libmoert is the same
for programs in C.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_FILE_NAME "moec-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# Of the libraries that the programs link; libMLIR and libLLVM 19 are Debian 12's.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# A program's own runtime of the library needs no ldconfig but the trigger.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
include(CPack)
