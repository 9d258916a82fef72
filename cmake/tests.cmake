# What crosses folders: checks of the source tree and the end-to-end suites.
# Labels for tools/run-tests: once = does not depend on the preset, or is long and says most under the sanitizers
# (dev is the first preset); e2e = left out by `make test-fast`; fast = a short form, run by `make test-fast` alone;
# threads = makes the pool or other threads busy: run by `make test-threads` under ThreadSanitizer as well;
# beside = runs at the same time as another such: waits more than it works, has ports and folders of its own, looks at
# nobody else's processes, mounts, users or limits, and measures nothing. No suite of engines is one: they look at all.
function(abx_add_suite name timeout labels)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS "${labels}" ENVIRONMENT
    "ABX_BUILD=${CMAKE_BINARY_DIR};ABX_SOURCE=${CMAKE_SOURCE_DIR}")
endfunction()

abx_add_suite(source_tree 120 once ${CMAKE_SOURCE_DIR}/tools/check-layers)
abx_add_suite(source_format 300 once ${CMAKE_SOURCE_DIR}/tests/tools/format)
abx_add_suite(source_tools 120 once ${CMAKE_SOURCE_DIR}/tests/tools/run)
abx_add_suite(source_rows 60 once ${CMAKE_SOURCE_DIR}/tests/tools/rows)
abx_add_suite(wire_transcripts 300 "once;beside" ${CMAKE_SOURCE_DIR}/tests/wire/run)
abx_add_suite(e2e_cases 600 e2e ${CMAKE_SOURCE_DIR}/tests/e2e/cases)
abx_add_suite(e2e_cases_files 600 e2e ${CMAKE_SOURCE_DIR}/tests/e2e/cases_files)
abx_add_suite(e2e_published 600 "e2e;once" ${CMAKE_SOURCE_DIR}/tests/e2e/published)
abx_add_suite(e2e_proxy 600 e2e ${CMAKE_SOURCE_DIR}/tests/e2e/proxy)
abx_add_suite(e2e_faults 900 e2e ${CMAKE_SOURCE_DIR}/tests/e2e/faults)
abx_add_suite(e2e_sdks 1800 e2e ${CMAKE_SOURCE_DIR}/tests/compat/run)
# The published ServerClient against agent-sandbox-server, without an engine.
abx_add_suite(compat_server 600 "e2e;beside" ${CMAKE_SOURCE_DIR}/tests/compat/server)
abx_add_suite(e2e_connect 300 e2e ${CMAKE_SOURCE_DIR}/tests/compat/connect)
abx_add_suite(e2e_interpreter 900 e2e ${CMAKE_SOURCE_DIR}/tests/compat/interpreter)
abx_add_suite(e2e_interpreter_image 2700 "e2e;once" ${CMAKE_SOURCE_DIR}/tests/compat/interpreter --image)
abx_add_suite(e2e_template_cli 300 e2e ${CMAKE_SOURCE_DIR}/tests/e2e/template_cli)
abx_add_suite(e2e_templates 1800 e2e ${CMAKE_SOURCE_DIR}/tests/compat/templates)
abx_add_suite(e2e_no_range 300 e2e ${CMAKE_SOURCE_DIR}/tests/e2e/no_range)
abx_add_suite(e2e_docs 900 "e2e;once" ${CMAKE_SOURCE_DIR}/tests/e2e/docs)
# What `make demo` runs.
abx_add_suite(e2e_demo 900 "e2e;once" ${CMAKE_SOURCE_DIR}/tests/e2e/demo ${CMAKE_BINARY_DIR} --count)
abx_add_suite(e2e_dist 900 "e2e;once" ${CMAKE_SOURCE_DIR}/tests/e2e/dist)

# The verbs check-config and version alone: what the policy vectors are driven through.
add_executable(policy-check ${CMAKE_SOURCE_DIR}/tests/policy/program.c)
target_link_libraries(policy-check PRIVATE abx_guest_server)
set_target_properties(policy-check PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
abx_add_suite(policy_vectors 600 "once;beside" ${CMAKE_SOURCE_DIR}/tests/policy/run)
abx_add_suite(policy_verbs 300 "once;beside" ${CMAKE_SOURCE_DIR}/tests/policy/verbs)

# The code interpreter from outside: its conformance table, traps, charts.
abx_add_suite(interpreter_program 900 "e2e;once;beside" ${CMAKE_SOURCE_DIR}/tests/interpreter/run)
abx_add_suite(interpreter_published 600 "e2e;once;beside" ${CMAKE_SOURCE_DIR}/tests/interpreter/published)
# The program agent-sandbox-server from outside.
abx_add_suite(server_program 600 "e2e;threads;beside" ${CMAKE_SOURCE_DIR}/tests/server/run)
abx_add_suite(server_browser 600 "e2e;once" ${CMAKE_SOURCE_DIR}/tests/server/browser)
# What its confined processes can not do: places where one is started x attacks.
abx_add_suite(server_confine 600 e2e ${CMAKE_SOURCE_DIR}/tests/server/confine)
abx_add_suite(server_held 300 "e2e;threads" ${CMAKE_SOURCE_DIR}/tests/server/held)
abx_add_suite(server_files 600 "e2e;threads;beside" ${CMAKE_SOURCE_DIR}/tests/server/files)
abx_add_suite(server_raw_files 600 "e2e;threads;beside" ${CMAKE_SOURCE_DIR}/tests/server/raw_files)
abx_add_suite(server_changes 600 "e2e;threads;beside" ${CMAKE_SOURCE_DIR}/tests/server/changes)
abx_add_suite(server_processes 600 "e2e;threads" ${CMAKE_SOURCE_DIR}/tests/server/processes)
abx_add_suite(server_users 300 e2e ${CMAKE_SOURCE_DIR}/tests/server/users)
abx_add_suite(server_terminals 600 "e2e;threads;beside" ${CMAKE_SOURCE_DIR}/tests/server/terminals)
abx_add_suite(server_tickets 300 "e2e;threads;beside" ${CMAKE_SOURCE_DIR}/tests/server/tickets)
abx_add_suite(server_system 600 "e2e;threads;beside" ${CMAKE_SOURCE_DIR}/tests/server/system)
abx_add_suite(server_additions 600 "e2e;threads;beside" ${CMAKE_SOURCE_DIR}/tests/server/additions)
# What is named after a row of the list of defects and stands nowhere else.
abx_add_suite(server_rows 300 "e2e;beside" ${CMAKE_SOURCE_DIR}/tests/server/rows)
abx_add_suite(server_rows_policy 300 "e2e;beside" ${CMAKE_SOURCE_DIR}/tests/server/rows_policy)
abx_add_suite(server_load 300 "e2e;threads" ${CMAKE_SOURCE_DIR}/tests/server/load)
abx_add_suite(server_clients 600 "e2e;once;beside" ${CMAKE_SOURCE_DIR}/tests/server/clients)
# The HTTP vectors of the policy language, and the one list of endpoints that are not built.
abx_add_suite(policy_http 600 "e2e;once;beside" ${CMAKE_SOURCE_DIR}/tests/policy/http)
# The published server and ours side by side.
abx_add_suite(oracle_server 900 "e2e;once;beside" ${CMAKE_SOURCE_DIR}/tests/oracle/run)
abx_add_suite(oracle_server_fast 300 fast ${CMAKE_SOURCE_DIR}/tests/oracle/run --fast)

# The published cases of user commands, through the server and its Python command host.
abx_add_suite(commands_cases 900 "e2e;beside" ${CMAKE_SOURCE_DIR}/tests/commands/run)
abx_add_suite(commands_pythons 900 "e2e;once;beside" ${CMAKE_SOURCE_DIR}/tests/commands/pythons)
abx_add_suite(commands_behaviour 600 "e2e;beside" ${CMAKE_SOURCE_DIR}/tests/commands/behaviour)
abx_add_suite(commands_kinds 600 "e2e;threads;beside" ${CMAKE_SOURCE_DIR}/tests/commands/kinds)
# libabx itself, and abx server, against an engine: a program of the public header alone.
add_executable(client_server ${CMAKE_SOURCE_DIR}/tests/client/server.c)
target_link_libraries(client_server PRIVATE abx_client)
set_target_properties(client_server PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
abx_add_suite(client_library 600 e2e ${CMAKE_SOURCE_DIR}/tests/client/run)
# The wheels beside the unmodified published client, against an engine.
abx_add_suite(e2e_wheels 900 "e2e;once" ${CMAKE_SOURCE_DIR}/tests/e2e/wheels)
