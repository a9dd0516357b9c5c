# Files as text in the program: warpsmith_embed(OUT NAMESPACE FUNCTION HEADER PREFIX FILES...) makes
# the source file OUT, which defines
#
#   const std::map<std::string, std::string>& NAMESPACE::FUNCTION();     {PREFIX + file name: text}
#
# as HEADER declares it. The same file, run as a script, writes it.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(WARPSMITH_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
  function(warpsmith_embed OUT NAMESPACE FUNCTION HEADER PREFIX)
    add_custom_command(
      OUTPUT ${OUT}
      COMMAND ${CMAKE_COMMAND} -DOUT=${OUT} -DNAMESPACE=${NAMESPACE} -DFUNCTION=${FUNCTION}
              -DHEADER=${HEADER} -DPREFIX=${PREFIX} "-DFILES=${ARGN}" -P ${WARPSMITH_EMBED_SCRIPT}
      DEPENDS ${ARGN} ${WARPSMITH_EMBED_SCRIPT}
      VERBATIM)
  endfunction()
  return()
endif()

set(TEXT "// Made by cmake/Embed.cmake.\n")
string(APPEND TEXT "#include \"${HEADER}\"\n\n")
string(APPEND TEXT "namespace ${NAMESPACE} {\n\n")
string(APPEND TEXT "const std::map<std::string, std::string>& ${FUNCTION}() {\n")
string(APPEND TEXT "  static const auto* const files = new std::map<std::string, std::string>{\n")
foreach(FILE ${FILES})
  get_filename_component(NAME ${FILE} NAME)
  file(READ ${FILE} HEX HEX)
  # As numbers: no limit on a literal's length, nothing to escape. CMake lists break on brackets and
  # semicolons; hexadecimal has neither.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" BYTES "${HEX}")
  string(LENGTH "${HEX}" DIGITS)
  math(EXPR SIZE "${DIGITS} / 2")
  # Literals of 2,000 bytes, joined by the compiler.
  set(LITERALS "")
  string(LENGTH "${BYTES}" LEFT)
  set(AT 0)
  while(AT LESS LEFT)
    string(SUBSTRING "${BYTES}" ${AT} 8000 PART)
    string(APPEND LITERALS "\n        \"${PART}\"")
    math(EXPR AT "${AT} + 8000")
  endwhile()
  string(APPEND TEXT "      {\"${PREFIX}${NAME}\", std::string(${LITERALS}, ${SIZE})},\n")
endforeach()
string(APPEND TEXT "  };\n  return *files;\n}\n\n}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUT} "${TEXT}")
