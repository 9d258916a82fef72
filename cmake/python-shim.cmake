# The Python shim of guest/server/hosts: a zip inside the binary. The same files, beside a copy of the binary, are
# the server's wheel (tools/make-wheels).
enable_language(ASM)
set(abx_py ${CMAKE_SOURCE_DIR}/guest/server/hosts/python)
set(abx_py_stage ${CMAKE_BINARY_DIR}/gen/python)
file(GLOB_RECURSE abx_py_sources CONFIGURE_DEPENDS RELATIVE ${abx_py} ${abx_py}/server/*.py)

add_executable(abx-gen-endpoints ${abx_py}/gen.c)
target_link_libraries(abx-gen-endpoints PRIVATE abx_lib_policy)
set_target_properties(abx-gen-endpoints PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)

set(abx_py_copies "")
foreach(source ${abx_py_sources})
  add_custom_command(OUTPUT ${abx_py_stage}/${source}
    COMMAND ${CMAKE_COMMAND} -E copy ${abx_py}/${source} ${abx_py_stage}/${source}
    DEPENDS ${abx_py}/${source} VERBATIM)
  list(APPEND abx_py_copies ${abx_py_stage}/${source})
endforeach()
add_custom_command(OUTPUT ${abx_py_stage}/__main__.py
  COMMAND ${CMAKE_COMMAND} -E copy ${abx_py}/boot.py ${abx_py_stage}/__main__.py
  DEPENDS ${abx_py}/boot.py VERBATIM)
add_custom_command(OUTPUT ${abx_py_stage}/server/_constants.py
  COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/lib/contract/contract.py ${abx_py_stage}/server/_constants.py
  DEPENDS ${CMAKE_SOURCE_DIR}/lib/contract/contract.py VERBATIM)
add_custom_command(OUTPUT ${abx_py_stage}/server/_endpoints.py
  COMMAND ${CMAKE_COMMAND} -E make_directory ${abx_py_stage}/server
  COMMAND abx-gen-endpoints > ${abx_py_stage}/server/_endpoints.py
  DEPENDS abx-gen-endpoints VERBATIM)
list(APPEND abx_py_copies ${abx_py_stage}/__main__.py ${abx_py_stage}/server/_constants.py
  ${abx_py_stage}/server/_endpoints.py)
list(SORT abx_py_copies)
set(abx_py_names "")
foreach(copy ${abx_py_copies})
  file(RELATIVE_PATH name ${abx_py_stage} ${copy})
  list(APPEND abx_py_names ${name})
endforeach()

# One date for all members: the same sources give the same bytes.
set(abx_py_zip ${CMAKE_BINARY_DIR}/gen/python-shim.zip)
add_custom_command(OUTPUT ${abx_py_zip}
  COMMAND ${CMAKE_COMMAND} -E env TZ=UTC ${CMAKE_COMMAND} -E tar cf ${abx_py_zip} --format=zip --mtime=1990-01-01 -- ${abx_py_names}
  WORKING_DIRECTORY ${abx_py_stage} DEPENDS ${abx_py_copies} VERBATIM)
set(abx_py_blob ${CMAKE_BINARY_DIR}/gen/python-shim.S)
file(WRITE ${abx_py_blob} "
.section .rodata
.balign 16
.globl abx_blob_python, abx_blob_python_end
.hidden abx_blob_python, abx_blob_python_end
abx_blob_python: .incbin \"${abx_py_zip}\"
abx_blob_python_end:
.byte 0
.section .note.GNU-stack,\"\",@progbits
")
set_source_files_properties(${abx_py_blob} PROPERTIES LANGUAGE ASM OBJECT_DEPENDS ${abx_py_zip} COMPILE_OPTIONS "-w")
target_sources(abx_guest_server_hosts PRIVATE ${abx_py_blob})
