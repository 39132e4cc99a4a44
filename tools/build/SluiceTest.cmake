# sluice_add_test(NAME name SOURCES file... [LABELS label...] [LIBS target...] [ARGS argument...]
#                 [ENV NAME=VALUE...] [TIMEOUT seconds])
# A doctest program that uses internal headers and links everything (or LIBS instead), registered
# as a test; doctest's main and tests/support are shared, sources of another platform are left out.
# Programs find the build and the source tree in SLUICE_BUILD_DIR and SLUICE_SOURCE_DIR (strings),
# the emulated driver in SLUICE_EMULATED_DRIVER_PATH.
#
# sluice_add_command_test(NAME name COMMAND command... [LABELS ...] [ENV ...] [TIMEOUT ...])
# Any other command. Every test has a time limit, a label (everyday, unless it says another) and may
# skip by exiting 77.
set(SLUICE_EMULATED_DRIVER_FILE libsluice_emulated_driver.so)
if(WIN32)
  set(SLUICE_EMULATED_DRIVER_FILE sluice_emulated_driver.dll)
endif()
file(WRITE "${PROJECT_BINARY_DIR}/generated/doctest_main.cpp.in"
  "#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN\n#include <doctest.h>\n")
configure_file("${PROJECT_BINARY_DIR}/generated/doctest_main.cpp.in"
  "${PROJECT_BINARY_DIR}/generated/doctest_main.cpp" COPYONLY)
sluice_sources(support_sources "${PROJECT_SOURCE_DIR}/tests/support")
add_library(sluice_test_main OBJECT "${PROJECT_BINARY_DIR}/generated/doctest_main.cpp"
  ${support_sources})
target_link_libraries(sluice_test_main PRIVATE sluice_settings sluice_doctest)

set(SLUICE_TEST_ENVIRONMENT
  "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=0:abort_on_error=0"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1"
  "SLUICE_BUILD_DIR=${PROJECT_BINARY_DIR}" "SLUICE_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
  "SLUICE_SANITIZE=${SLUICE_SANITIZE}")

# Windows programs on Linux: wine, with a prefix of this build's own.
if(CMAKE_CROSSCOMPILING AND WIN32)
  list(APPEND SLUICE_TEST_ENVIRONMENT "WINE=${CMAKE_CROSSCOMPILING_EMULATOR}"
    "WINEPREFIX=${PROJECT_BINARY_DIR}/wine" "WINEDEBUG=-all" "WINEDLLOVERRIDES=mscoree,mshtml="
    "WINEPATH=${PROJECT_BINARY_DIR}")
  set(wine_script "${PROJECT_SOURCE_DIR}/tests/support/wine.sh")
  add_test(NAME wine_starts COMMAND bash "${wine_script}" start)
  add_test(NAME wine_stops COMMAND bash "${wine_script}" stop)
  set_tests_properties(wine_starts PROPERTIES FIXTURES_SETUP wine)
  set_tests_properties(wine_stops PROPERTIES FIXTURES_CLEANUP wine)
  set_tests_properties(wine_starts wine_stops PROPERTIES TIMEOUT 120
    ENVIRONMENT "${SLUICE_TEST_ENVIRONMENT}")
endif()

function(sluice_register_test name)
  cmake_parse_arguments(PARSE_ARGV 1 T "" "TIMEOUT" "LABELS;ENV")
  if(NOT T_LABELS)
    set(T_LABELS everyday)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  if(SLUICE_SANITIZE)
    math(EXPR T_TIMEOUT "${T_TIMEOUT} * 4")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} SKIP_RETURN_CODE 77
    LABELS "${T_LABELS}" ENVIRONMENT "${SLUICE_TEST_ENVIRONMENT};${T_ENV}")
  if(CMAKE_CROSSCOMPILING AND WIN32)
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED wine)
  endif()
endfunction()

function(sluice_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 T "" "NAME;TIMEOUT" "SOURCES;LABELS;LIBS;ARGS;ENV")
  if(NOT T_NAME OR NOT T_SOURCES OR T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sluice_add_test: needs NAME, SOURCES; not known: ${T_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT T_LIBS)
    set(T_LIBS sluice_internal)
  endif()
  list(FILTER T_SOURCES EXCLUDE REGEX "${SLUICE_OTHER_PLATFORM}")
  add_executable(${T_NAME} ${T_SOURCES} $<TARGET_OBJECTS:sluice_test_main>)
  set_target_properties(${T_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBS} sluice_settings sluice_warnings sluice_doctest
    sluice_fmt sluice_json sluice_xxhash)
  # What is tested is optimized; the tests themselves compile in half the time without.
  target_compile_options(${T_NAME} PRIVATE -O0)
  target_compile_definitions(${T_NAME} PRIVATE SLUICE_BUILD_DIR="${PROJECT_BINARY_DIR}"
    SLUICE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    SLUICE_EMULATED_DRIVER_PATH="${PROJECT_BINARY_DIR}/${SLUICE_EMULATED_DRIVER_FILE}")
  if(TARGET sluice_emulated_driver)
    add_dependencies(${T_NAME} sluice_emulated_driver)
  endif()
  add_test(NAME ${T_NAME} COMMAND ${T_NAME} ${T_ARGS})
  sluice_register_test(${T_NAME} TIMEOUT ${T_TIMEOUT} LABELS ${T_LABELS} ENV ${T_ENV})
endfunction()

function(sluice_add_command_test)
  cmake_parse_arguments(PARSE_ARGV 0 T "" "NAME;TIMEOUT" "COMMAND;LABELS;ENV")
  if(NOT T_NAME OR NOT T_COMMAND OR T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sluice_add_command_test: needs NAME, COMMAND; "
            "not known: ${T_UNPARSED_ARGUMENTS}")
  endif()
  add_test(NAME ${T_NAME} COMMAND ${T_COMMAND})
  sluice_register_test(${T_NAME} TIMEOUT ${T_TIMEOUT} LABELS ${T_LABELS} ENV ${T_ENV})
endfunction()
