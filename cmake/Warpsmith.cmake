# warpsmith_library(name SOURCES a.cc ... DEPS lib ...): a static library with our warnings.
# warpsmith_binary(name SOURCES ... DEPS ...): an executable in build/*/bin.
# warpsmith_test(name SOURCES a_test.cc ... DEPS ...): one Catch2 binary, which is one test of ctest.
set(WARPSMITH_WARNINGS -Wall -Wextra -Werror -Wno-sign-compare -Wno-missing-field-initializers)

function(warpsmith_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${WARPSMITH_WARNINGS})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
endfunction()

function(warpsmith_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${WARPSMITH_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES BUILD_RPATH_USE_ORIGIN ON)
endfunction()

function(warpsmith_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${WARPSMITH_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} warpsmith_test_main)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
