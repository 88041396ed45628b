import { CniError } from "#cni/error.ts";
import { validateIfName } from "#cni/names.ts";

/** The kernel's own names in /proc/sys/net/ipv4/conf, which it refuses to interfaces. */
const sysctlNames = ["all", "default"];

/**
 * Why a pod cannot have an interface of this name (multi-network specification v1.1 §4.1.2.1.5);
 * undefined when it can. Besides what CNI refuses: control characters, `%`, by which the kernel makes
 * a name from a pattern, and the two names that its sysctls use.
 */
export function ifNameProblem(name: string): string | undefined {
  try {
    validateIfName(name);
  } catch (error) {
    if (error instanceof CniError) return error.message;
    throw error;
  }
  if (/[\p{Cc}%]/u.test(name)) return "interface name contains % or a control character";
  return sysctlNames.includes(name) ? "interface name is reserved by the kernel" : undefined;
}
