# -DGANGWAY_SANITIZE=address,undefined | thread
if(GANGWAY_SANITIZE)
  add_compile_options(-fsanitize=${GANGWAY_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${GANGWAY_SANITIZE})
endif()
