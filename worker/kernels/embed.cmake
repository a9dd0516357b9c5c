# cmake -DOUT=headers.cc -DFILES="a.cuh;b.cuh" -P embed.cmake
# Writes a source file with the text of each header, so that the binary can hand them to NVRTC as
# in-memory headers and to the host compiler as a folder.
set(TEXT "// Made by worker/kernels/embed.cmake from worker/kernels/*.cuh.\n")
string(APPEND TEXT "#include \"worker/kernels/headers.h\"\n\n")
string(APPEND TEXT "namespace warpsmith::kernels {\n\n")
string(APPEND TEXT "const std::map<std::string, std::string>& Headers() {\n")
string(APPEND TEXT "  static const auto* const headers = new std::map<std::string, std::string>{\n")
foreach(FILE ${FILES})
  get_filename_component(NAME ${FILE} NAME)
  file(READ ${FILE} HEX HEX)
  # As numbers: no limit on a literal's length, nothing to escape. CMake lists break on brackets and
  # semicolons; hexadecimal has neither.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" BYTES "${HEX}")
  string(LENGTH "${HEX}" DIGITS)
  math(EXPR SIZE "${DIGITS} / 2")
  # Literals of 2,000 bytes, joined by the compiler.
  string(REGEX REPLACE "((\\\\x[0-9a-f][0-9a-f])+)" "\\1" BYTES "${BYTES}")
  set(LITERALS "")
  string(LENGTH "${BYTES}" LEFT)
  set(AT 0)
  while(AT LESS LEFT)
    string(SUBSTRING "${BYTES}" ${AT} 8000 PART)
    string(APPEND LITERALS "\n        \"${PART}\"")
    math(EXPR AT "${AT} + 8000")
  endwhile()
  string(APPEND TEXT "      {\"warpsmith/${NAME}\", std::string(${LITERALS}, ${SIZE})},\n")
endforeach()
string(APPEND TEXT "  };\n  return *headers;\n}\n\n}  // namespace warpsmith::kernels\n")
file(WRITE ${OUT} "${TEXT}")
