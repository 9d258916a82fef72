# The host program abx. A release build carries the guest and the shim (one file to ship).
if(EXISTS ${CMAKE_SOURCE_DIR}/cli/main.c)
  set(abx_sources cli/main.c)
  if(ABX_STATIC AND TARGET abx-guest AND TARGET abx-shim)
    set(abx_blob ${CMAKE_BINARY_DIR}/gen/blob.S)
    set(abx_guest_stripped ${CMAKE_BINARY_DIR}/gen/abx-guest.stripped)
    set(abx_shim_file ${CMAKE_BINARY_DIR}/bin/abx-shim)
    add_custom_command(OUTPUT ${abx_guest_stripped}
      COMMAND ${CMAKE_STRIP} -o ${abx_guest_stripped} $<TARGET_FILE:abx-guest>
      DEPENDS abx-guest)
    file(WRITE ${abx_blob} "
.section .rodata
.balign 16
.globl abx_blob_guest, abx_blob_guest_end, abx_blob_shim, abx_blob_shim_end
abx_blob_guest: .incbin \"${abx_guest_stripped}\"
abx_blob_guest_end:
.byte 0
.balign 16
abx_blob_shim: .incbin \"${abx_shim_file}\"
abx_blob_shim_end:
.byte 0
.section .note.GNU-stack,\"\",@progbits
")
    enable_language(ASM)
    set_source_files_properties(${abx_blob} PROPERTIES LANGUAGE ASM
      OBJECT_DEPENDS "${abx_guest_stripped};${abx_shim_file}"
      COMPILE_OPTIONS "-w")
    list(APPEND abx_sources ${abx_blob})
  endif()
  add_executable(abx ${abx_sources})
  target_link_libraries(abx PRIVATE abx_cli abx_host_engine)
  if(TARGET abx-guest)
    add_dependencies(abx abx-guest)
  endif()
  if(TARGET abx-shim)
    add_dependencies(abx abx-shim)
  endif()
  if(ABX_STATIC)
    target_link_options(abx PRIVATE -static-pie)
  endif()
  install(TARGETS abx RUNTIME DESTINATION bin)
  install(FILES docs/abx.1 DESTINATION share/man/man1)
  # What `abx template build` copies into a template; there after `make build` of the release preset.
  install(DIRECTORY build/dist/ DESTINATION share/abx OPTIONAL
          FILES_MATCHING PATTERN "agent_sandbox_server-*.whl" PATTERN "agent-sandbox-*" EXCLUDE)
endif()
