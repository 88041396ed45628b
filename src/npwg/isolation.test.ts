import { expect, test } from "vitest";
import { CniErrorCode } from "#cni/error.ts";
import { checkNamespaceAccess, type IsolationRules } from "./isolation.ts";

/** A pod of the namespace `a` asks for a network of another one. */
const access = (namespace: string, rules: Partial<IsolationRules>) => (): void =>
  checkNamespaceAccess("a", { namespace, name: "net" }, { namespaceIsolation: true, ...rules });

test.each<[string, namespace: string, Partial<IsolationRules>]>([
  ["without isolation", "b", { namespaceIsolation: false }],
  ["of the pod's own namespace", "a", {}],
  ["of a global namespace", "b", { globalNamespaces: ["c", "b"] }],
  ["of the default namespace when none is configured", "default", {}],
])("checkNamespaceAccess() allows networks %s [S-300]", (_, namespace, rules) => {
  expect(access(namespace, rules)).not.toThrow();
});

test.each<[string, namespace: string, Partial<IsolationRules>]>([
  ["another namespace", "b", {}],
  ["the default namespace when others are global", "default", { globalNamespaces: ["c"] }],
  ["any namespace when none is global", "default", { globalNamespaces: [] }],
])("checkNamespaceAccess() refuses networks of %s [S-301] [N-7.4]", (_, namespace, rules) => {
  const error = expect.objectContaining({ code: CniErrorCode.AccessDenied });
  expect(access(namespace, rules)).toThrow(error);
});
