# agent_sandbox.server for the Python of a sandbox: the files of cmake/python-shim.cmake, as a table of host/runtime
# (server_python.h), which lays them beside the server in every sandbox.
set(abx_sp_dir ${CMAKE_BINARY_DIR}/gen/host/runtime)
set(abx_sp_names ${abx_py_names})
list(FILTER abx_sp_names INCLUDE REGEX "^server/")
set(abx_sp_data ".section .rodata\n")
set(abx_sp_rows "")
set(abx_sp_externs "")
set(abx_sp_folders "")
set(abx_sp_files "")
foreach(name ${abx_sp_names})
  get_filename_component(folder ${name} DIRECTORY)
  if(NOT folder IN_LIST abx_sp_folders)
    list(APPEND abx_sp_folders ${folder})
  endif()
  string(MAKE_C_IDENTIFIER "abx_sp_${name}" symbol)
  string(APPEND abx_sp_data ".globl ${symbol}\n.hidden ${symbol}\n${symbol}: .incbin \"${abx_py_stage}/${name}\"\n.byte 0\n")
  string(APPEND abx_sp_externs "extern const char ${symbol}[];\n")
  string(APPEND abx_sp_rows "    {\"${name}\", ${symbol}},\n")
  list(APPEND abx_sp_files ${abx_py_stage}/${name})
endforeach()
list(SORT abx_sp_folders) # a folder comes before what is in it
set(abx_sp_heads "")
foreach(folder ${abx_sp_folders})
  string(APPEND abx_sp_heads "    {\"${folder}\", 0},\n")
endforeach()
file(CONFIGURE OUTPUT ${abx_sp_dir}/server_python.c CONTENT "#include \"host/runtime/server_python.h\"
${abx_sp_externs}const struct abx__server_python abx__server_python[] = {
${abx_sp_heads}${abx_sp_rows}    {0, 0}};
" @ONLY)
file(CONFIGURE OUTPUT ${abx_sp_dir}/server_python_data.S CONTENT "${abx_sp_data}.section .note.GNU-stack,\"\",@progbits
" @ONLY)
set_source_files_properties(${abx_sp_dir}/server_python_data.S PROPERTIES LANGUAGE ASM
  OBJECT_DEPENDS "${abx_sp_files}" COMPILE_OPTIONS "-w")
target_sources(abx_host_runtime PRIVATE ${abx_sp_dir}/server_python.c ${abx_sp_dir}/server_python_data.S)
