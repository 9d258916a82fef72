# abx_proto(TARGET file.proto...): C from .proto files by protoc-c, below build/<preset>/gen, under the
# same path as the source. What it generates is not held to the house's warnings.
find_program(PROTOC_C protoc-c REQUIRED)

function(abx_proto target)
  set(generated "")
  foreach(proto ${ARGN})
    string(REGEX REPLACE "\\.proto$" ".pb-c" stem ${proto})
    set(out ${CMAKE_BINARY_DIR}/gen/${stem})
    add_custom_command(OUTPUT ${out}.c ${out}.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/gen
      COMMAND ${PROTOC_C} --proto_path=${CMAKE_SOURCE_DIR} --c_out=${CMAKE_BINARY_DIR}/gen ${proto}
      DEPENDS ${CMAKE_SOURCE_DIR}/${proto} VERBATIM)
    list(APPEND generated ${out}.c)
  endforeach()
  add_library(${target} STATIC ${generated})
  target_compile_options(${target} PRIVATE -w)
  target_link_libraries(${target} PUBLIC protobuf-c)
endfunction()
