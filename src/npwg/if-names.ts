import { CniError } from "#cni/error.ts";
import { validateIfName } from "#cni/names.ts";
import type { NetworkSelection } from "./selection.ts";

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

/** An element of the annotation that asks for an interface name which is used already. */
export interface DuplicateIfName {
  readonly ifName: string;
  /** The element that must fail. */
  readonly position: number;
  /** The element that has the name; 0 = one of the names taken before the annotation's. */
  readonly usedBy: number;
}

/**
 * The requested interface names that an earlier attachment uses already. They leave the annotation
 * valid but must fail the attachment that asks for them (§4.1.2.1.5). `taken` holds the
 * names that are used before the first element: the default network's.
 */
export function duplicateIfNames(
  selections: readonly NetworkSelection[],
  options: { readonly taken?: readonly string[] } = {},
): DuplicateIfName[] {
  const usedBy = new Map<string, number>(["lo", ...(options.taken ?? [])].map((name) => [name, 0]));
  return selections.flatMap(({ ifName, position }) => {
    if (ifName === undefined) return [];
    const user = usedBy.get(ifName);
    if (user === undefined) usedBy.set(ifName, position);
    return user === undefined ? [] : [{ ifName, position, usedBy: user }];
  });
}
