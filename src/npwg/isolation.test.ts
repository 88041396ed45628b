import { expect, test } from "vitest";
import { CniErrorCode } from "#cni/error.ts";
import { checkNamespaceAccess, type NamespaceAccess } from "./isolation.ts";

const access = (changes: Partial<NamespaceAccess>): NamespaceAccess => ({
  podNamespace: "a",
  nadNamespace: "b",
  name: "net",
  namespaceIsolation: true,
  ...changes,
});

test.each<[string, Partial<NamespaceAccess>]>([
  ["without isolation", { namespaceIsolation: false }],
  ["of the pod's own namespace", { nadNamespace: "a" }],
  ["of a global namespace", { globalNamespaces: ["c", "b"] }],
  ["of the default namespace when none is configured", { nadNamespace: "default" }],
])("checkNamespaceAccess() lets networks pass %s [S-300]", (_, changes) => {
  expect(() => checkNamespaceAccess(access(changes))).not.toThrow();
});

test.each<[string, Partial<NamespaceAccess>]>([
  ["another namespace", {}],
  ["default when others are global", { nadNamespace: "default", globalNamespaces: ["c"] }],
  ["any namespace when none is global", { nadNamespace: "default", globalNamespaces: [] }],
])("checkNamespaceAccess() refuses networks of %s [S-301] [N-7.4]", (_, changes) => {
  const error = expect.objectContaining({ code: CniErrorCode.AccessDenied });
  expect(() => checkNamespaceAccess(access(changes))).toThrow(error);
});
