import type { PodName } from "#engine/ports/cluster.ts";

/** Reads `NAMESPACE/NAME`; a name without a namespace is in `default`, as for kubectl. */
export function podName(reference = ""): PodName {
  const [first = "", second] = reference.split("/");
  return second === undefined
    ? { namespace: "default", name: first }
    : { namespace: first, name: second };
}
