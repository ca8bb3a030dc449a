# SPDX-License-Identifier: GPL-2.0-or-later
# By CPack, before a package is made: with SOURCE_DATE_EPOCH all files have that time, so that a
# package has the same bytes each time.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  return()
endif()
execute_process(COMMAND find ${CPACK_TEMPORARY_INSTALL_DIRECTORY} -exec touch -h -d @$ENV{SOURCE_DATE_EPOCH} {} +
                COMMAND_ERROR_IS_FATAL ANY)
