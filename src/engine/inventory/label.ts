import { hash } from "node:crypto";
import type { NetworkAttachmentDefinition } from "#npwg/nad.ts";

/** A qualified name has at most 63 characters behind its prefix. */
const nameMax = 63;
const keptMax = 50;

/**
 * The label, and extended resource, of the Nodes where a network can be used; undefined unless its
 * definition asks for it. A long name is cut, and told from others by its hash.
 */
export function networkLabel({
  namespace,
  name,
  annotations,
}: Pick<NetworkAttachmentDefinition, "namespace" | "name" | "annotations">): string | undefined {
  if (annotations["plexus.dev/schedule"] !== "true") return undefined;
  const full = `${namespace}.${name}`;
  const digest = hash("sha256", `${namespace}/${name}`).slice(0, 8);
  const short = full.length <= nameMax ? full : `${full.slice(0, keptMax)}-${digest}`;
  return `networks.plexus.dev/${short}`;
}
