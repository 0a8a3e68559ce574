# moe_embed_files(library name folder...): a static library with the web page in the folders: it
# defines `const std::span<const moert::StaticFile> moert::name`. EmbedFiles.py tells which files are
# part of it.
function(moe_embed_files library name)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/EmbedFiles.py)
  set(files)
  foreach(folder ${ARGN})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${folder}/*)
    list(APPEND files ${found})
    if(EXISTS ${folder}/libraries.txt)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/libraries.txt)
      file(STRINGS ${folder}/libraries.txt lines REGEX "^[^#]")
      foreach(line ${lines})
        string(REGEX REPLACE "^[^ ]+ +" "" file "${line}")
        if(EXISTS "${file}")
          list(APPEND files "${file}")
        endif()
      endforeach()
    endif()
  endforeach()
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${library}.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${Python3_EXECUTABLE} ${script} ${output} ${name} ${ARGN}
    DEPENDS ${script} ${files} VERBATIM)
  moe_add_library(${library} SOURCES ${output})
endfunction()
