# The kernels of guest/kernels, inside the binary: Python's as a zip, the others as they are.
set(abx_kernels ${CMAKE_SOURCE_DIR}/guest/kernels)
file(GLOB_RECURSE abx_kernel_names CONFIGURE_DEPENDS RELATIVE ${abx_kernels}/python ${abx_kernels}/python/*.py)
list(SORT abx_kernel_names)
list(TRANSFORM abx_kernel_names PREPEND ${abx_kernels}/python/ OUTPUT_VARIABLE abx_kernel_sources)
set(abx_kernel_zip ${CMAKE_BINARY_DIR}/gen/kernel-python.zip)
# One date for all members: the same sources give the same bytes.
add_custom_command(OUTPUT ${abx_kernel_zip}
  COMMAND ${CMAKE_COMMAND} -E env TZ=UTC ${CMAKE_COMMAND} -E tar cf ${abx_kernel_zip} --format=zip --mtime=1990-01-01 -- ${abx_kernel_names}
  WORKING_DIRECTORY ${abx_kernels}/python DEPENDS ${abx_kernel_sources} VERBATIM)
set(abx_kernel_blob ${CMAKE_BINARY_DIR}/gen/kernels.S)
set(abx_kernel_text "")
foreach(row "python;${abx_kernel_zip}" "node;${abx_kernels}/node/kernel.js" "bash;${abx_kernels}/bash/kernel.sh")
  list(GET row 0 name)
  list(GET row 1 path)
  string(APPEND abx_kernel_text "
.section .rodata
.balign 16
.globl abx_blob_kernel_${name}, abx_blob_kernel_${name}_end
.hidden abx_blob_kernel_${name}, abx_blob_kernel_${name}_end
abx_blob_kernel_${name}: .incbin \"${path}\"
abx_blob_kernel_${name}_end:
.byte 0
")
endforeach()
file(WRITE ${abx_kernel_blob} "${abx_kernel_text}.section .note.GNU-stack,\"\",@progbits\n")
set_source_files_properties(${abx_kernel_blob} PROPERTIES LANGUAGE ASM COMPILE_OPTIONS "-w"
  OBJECT_DEPENDS "${abx_kernel_zip};${abx_kernels}/node/kernel.js;${abx_kernels}/bash/kernel.sh")
target_sources(abx_guest_kernels PRIVATE ${abx_kernel_blob})
