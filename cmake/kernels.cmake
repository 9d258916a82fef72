# The kernels of guest/kernels, inside the binary: Python's as one table of sources (guest/kernels/python/__main__.py tells its
# form), the others as they are.
set(abx_kernels ${CMAKE_SOURCE_DIR}/guest/kernels)
file(GLOB abx_kernel_modules CONFIGURE_DEPENDS ${abx_kernels}/python/abx_kernel/*.py)
list(SORT abx_kernel_modules)
set(abx_kernel_python ".incbin \"${abx_kernels}/python/__main__.py\"\n.byte 0")
foreach(path ${abx_kernel_modules})
  get_filename_component(name ${path} NAME_WE)
  string(REPLACE "abx_kernel.__init__" "abx_kernel" name "abx_kernel.${name}")
  string(APPEND abx_kernel_python "\n.asciz \"${name}\"\n.long 2f - 1f\n1: .incbin \"${path}\"\n2:")
endforeach()
set(abx_kernel_files ${abx_kernels}/python/__main__.py ${abx_kernel_modules})
set(abx_kernel_text "")
macro(abx_kernel name body)
  string(APPEND abx_kernel_text "
.section .rodata
.balign 16
.globl abx_blob_kernel_${name}, abx_blob_kernel_${name}_end
.hidden abx_blob_kernel_${name}, abx_blob_kernel_${name}_end
abx_blob_kernel_${name}: ${body}
abx_blob_kernel_${name}_end:
.byte 0
")
endmacro()
abx_kernel(python "${abx_kernel_python}")
foreach(row "node;kernel.js" "bash;kernel.sh")
  list(GET row 0 name)
  list(GET row 1 file)
  abx_kernel(${name} ".incbin \"${abx_kernels}/${name}/${file}\"")
  list(APPEND abx_kernel_files ${abx_kernels}/${name}/${file})
endforeach()
set(abx_kernel_blob ${CMAKE_BINARY_DIR}/gen/kernels.S)
file(CONFIGURE OUTPUT ${abx_kernel_blob} CONTENT "${abx_kernel_text}.section .note.GNU-stack,\"\",@progbits\n" @ONLY)
set_source_files_properties(${abx_kernel_blob} PROPERTIES LANGUAGE ASM COMPILE_OPTIONS "-w" OBJECT_DEPENDS "${abx_kernel_files}")
target_sources(abx_guest_kernels PRIVATE ${abx_kernel_blob})
