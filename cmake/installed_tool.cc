// Compiled into every program that uses the installed package: where the `gangway` tool of that
// package is. Weak, since libraries between the two may bring it as well.
namespace gangway::internal {

extern const char* const kInstalledTool __attribute__((weak)) = GANGWAY_INSTALLED_TOOL;

}  // namespace gangway::internal
