# SPDX-License-Identifier: GPL-2.0-or-later
# Which versions of which libraries a static binary is made of.  `cmake -P` of this file writes, below
# OUTPUT, of the archives LIBRARIES (separated by commas): libraries.inc for `iotrace --build-info`,
# iotrace.spdx.json (SPDX 2.3), and built-using, a line for Debian's control file.  The package manager
# of the machine knows the versions; a library that it does not know has the version "unknown".
cmake_minimum_required(VERSION 3.16)

function(ask package version source source_version file)
  # Debian's packages may have files below /lib that are below /usr/lib now.
  string(REGEX REPLACE "^/usr" "" other ${file})
  set(found "")
  foreach(path ${file} ${other})
    if(NOT found AND DPKG_QUERY)
      execute_process(COMMAND ${DPKG_QUERY} -S ${path} OUTPUT_VARIABLE found ERROR_QUIET)
    endif()
  endforeach()
  set(line "")
  if(found MATCHES "^([^ ]+): ")
    execute_process(COMMAND ${DPKG_QUERY} -W -f "\${Package} \${Version} \${source:Package} \${source:Version}" ${CMAKE_MATCH_1}
      OUTPUT_VARIABLE line ERROR_QUIET)
  elseif(RPM)
    execute_process(COMMAND ${RPM} -qf --qf "%{NAME} %{VERSION}-%{RELEASE} %{NAME} %{VERSION}-%{RELEASE}" ${file}
      OUTPUT_VARIABLE line ERROR_QUIET)
  endif()
  if(NOT line MATCHES "^([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+)$")
    get_filename_component(name ${file} NAME_WE)
    set(line "${name} unknown ${name} unknown")
    string(REGEX MATCH "^([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+)$" line "${line}")
  endif()
  set(${package} ${CMAKE_MATCH_1} PARENT_SCOPE)
  set(${version} ${CMAKE_MATCH_2} PARENT_SCOPE)
  set(${source} ${CMAKE_MATCH_3} PARENT_SCOPE)
  set(${source_version} ${CMAKE_MATCH_4} PARENT_SCOPE)
endfunction()

find_program(DPKG_QUERY dpkg-query)
find_program(RPM rpm)
string(REPLACE "," ";" LIBRARIES "${LIBRARIES}")
set(seen "")
set(inc "")
set(packages "")
set(relations "")
set(using "")
foreach(library ${LIBRARIES})
  get_filename_component(file ${library} REALPATH)
  if(NOT EXISTS "${file}")
    continue()
  endif()
  ask(package version source source_version ${file})
  if(package IN_LIST seen)
    continue()
  endif()
  list(APPEND seen ${package})
  string(APPEND inc "LIBRARY(\"${package}\", \"${version}\")\n")
  if(NOT version STREQUAL "unknown")
    list(APPEND using "${source} (= ${source_version})")
  endif()
  string(REGEX REPLACE "[^A-Za-z0-9.-]" "-" id "SPDXRef-${package}")
  string(APPEND packages ",\n    { \"SPDXID\": \"${id}\", \"name\": \"${package}\", \"versionInfo\": \"${version}\",
      \"sourceInfo\": \"built from ${source} ${source_version}\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false,
      \"licenseConcluded\": \"NOASSERTION\", \"licenseDeclared\": \"NOASSERTION\", \"copyrightText\": \"NOASSERTION\" }")
  string(APPEND relations ",\n    { \"spdxElementId\": \"SPDXRef-iotrace\", \"relationshipType\": \"STATIC_LINK\",
      \"relatedSpdxElement\": \"${id}\" }")
endforeach()
list(REMOVE_DUPLICATES using)
list(SORT using)
list(JOIN using ", " using)
string(TIMESTAMP now "%Y-%m-%dT%H:%M:%SZ" UTC) # SOURCE_DATE_EPOCH, if that is set
file(WRITE ${OUTPUT}/libraries.inc "${inc}")
file(WRITE ${OUTPUT}/built-using "${using}")
file(WRITE ${OUTPUT}/iotrace.spdx.json "{
  \"spdxVersion\": \"SPDX-2.3\",
  \"dataLicense\": \"CC0-1.0\",
  \"SPDXID\": \"SPDXRef-DOCUMENT\",
  \"name\": \"iotrace-${VERSION}\",
  \"documentNamespace\": \"https://iotrace.invalid/spdx/iotrace-${VERSION}-${PROCESSOR}-${now}\",
  \"creationInfo\": { \"created\": \"${now}\", \"creators\": [ \"Tool: iotrace-${VERSION}-build\" ] },
  \"documentDescribes\": [ \"SPDXRef-iotrace\" ],
  \"packages\": [
    { \"SPDXID\": \"SPDXRef-iotrace\", \"name\": \"iotrace\", \"versionInfo\": \"${VERSION}\",
      \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \"licenseConcluded\": \"NOASSERTION\",
      \"licenseDeclared\": \"GPL-2.0-or-later\", \"copyrightText\": \"NOASSERTION\" }${packages}
  ],
  \"relationships\": [
    { \"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\",
      \"relatedSpdxElement\": \"SPDXRef-iotrace\" }${relations}
  ]
}
")
