import type { Result, ResultInterface } from "./result.ts";

/**
 * The interfaces inside the sandbox, with their indexes. Where some sandboxes are paths, others are
 * notes of the plugin for its DEL: amazon-vpc-cni adds a dummy with a device number.
 */
export function sandboxInterfaces({ interfaces }: Pick<Result, "interfaces">): SandboxInterface[] {
  const inside = interfaces
    .map((link, index) => ({ link, index }))
    .filter(({ link: { sandbox = "" } }) => sandbox !== "");
  const atPaths = inside.filter(({ link: { sandbox = "" } }) => sandbox.startsWith("/"));
  return atPaths.length === 0 ? inside : atPaths;
}

interface SandboxInterface {
  readonly link: ResultInterface;
  /** In {@link Result.interfaces}, as addresses name it. */
  readonly index: number;
}
