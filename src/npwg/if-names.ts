import { CniError } from "#cni/error.ts";
import { validateIfName } from "#cni/names.ts";

/** Names that the kernel reserves in /proc/sys/net/ipv4/conf. */
const sysctlNames = ["all", "default"];

/**
 * Why a pod cannot have an interface of this name (multi-network specification v1.1 §4.1.2.1.5);
 * undefined when it can. In addition to CNI's rules it forbids control characters, `%`, which the
 * kernel expands, and the two reserved names.
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
