import { expect, test } from "vitest";
import { ManifestError, parseManifestFile } from "./documents.ts";

const pod = "{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {a/b: c}}}";
const nad = `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: net, namespace: apps, annotations: {k: v}}
spec: {config: '{"type":"ptp"}'}
`;

test("parseManifestFile() reads pods and definitions of several documents, and skips empty ones", () => {
  expect(parseManifestFile(`---\n${pod}\n---\n---\n${nad}---\n`, "f.yaml")).toEqual({
    pods: [{ namespace: "default", name: "web", uid: "", annotations: { "a/b": "c" } }],
    nads: [{ namespace: "apps", name: "net", annotations: { k: "v" }, config: '{"type":"ptp"}' }],
  });
});

test.each(["", "\n# only a comment\n", "---\n---\n"])("%j has no manifest", (text) => {
  expect(parseManifestFile(text, "f.yaml")).toEqual({ pods: [], nads: [] });
});

test.each([undefined, 2, "\t"])("parseManifestFile() reads JSON, indented by %j", (indent) => {
  const metadata = { name: "web", uid: "u1", namespace: "x" };
  const text = JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata }, null, indent);
  expect(parseManifestFile(text, "f.json").pods).toEqual([
    { namespace: "x", name: "web", uid: "u1", annotations: {} },
  ]);
});

test("parseManifestFile() reads lists, also nested ones", () => {
  const pod = (name: string) => ({ apiVersion: "v1", kind: "Pod", metadata: { name } });
  const list = (...items: object[]) => ({ kind: "List", apiVersion: "v1", items });
  const text = JSON.stringify(list(pod("a"), list(pod("b"))));
  expect(parseManifestFile(text, "f.json").pods.map(({ name }) => name)).toEqual(["a", "b"]);
});

test("parseManifestFile() ignores a pod's other fields, and accepts a definition without spec [N-3.2a] [N-3.3a]", () => {
  const text =
    "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {x: y}}, spec: {containers: []}, status: {}}";
  expect(parseManifestFile(text, "f").pods).toHaveLength(1);
  const bare =
    "{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: {name: net}}";
  expect(parseManifestFile(bare, "f").nads).toEqual([
    { namespace: "default", name: "net", annotations: {} },
  ]);
});

test.each([
  ["broken YAML", `${pod}\n---\n{a: [`, /^f\.yaml:3: /],
  ["a duplicate key", "{kind: Pod, kind: Pod}", /^f\.yaml:1: .*unique/],
  ["another kind", "{apiVersion: v1, kind: Service}", /^f\.yaml:1: kind is "Service", not Pod/],
  ["no kind", "{apiVersion: v1}", /^f\.yaml:1: kind is undefined/],
  ["a string", "hello", /^f\.yaml:1: kind is undefined/],
  [
    "another version of the definition",
    nad.replace("/v1\n", "/v2\n"),
    /^f\.yaml:1: NetworkAttachmentDefinition "apps\/net": apiVersion: must be "k8s.cni.cncf.io\/v1"/,
  ],
  [
    "an unknown key in spec",
    nad.replace("config:", "conf:"),
    /^f\.yaml:1: .*: spec\.conf: unknown key/,
  ],
  ["an unknown key at the top", `${nad}extra: 1\n`, /^f\.yaml:1: .*: extra: unknown key/],
  ["a config object", nad.replace(`'{"type":"ptp"}'`, "{type: ptp}"), /spec\.config: /],
  ["no name", "{apiVersion: v1, kind: Pod, metadata: {}}", /metadata\.name: /],
  ["no metadata", "{apiVersion: v1, kind: Pod}", /metadata: /],
  [
    "a name with a slash",
    pod.replace("web", "../web"),
    /metadata\.name: must be a DNS-1123 subdomain .*, got "..\/web"/,
  ],
  [
    "a namespace with a dot",
    nad.replace("apps", "a.b"),
    /metadata\.namespace: must be a DNS-1123 label .*, got "a.b"/,
  ],
  [
    "an annotation that is not a string",
    pod.replace("a/b: c", "a/b: 7"),
    /Pod "web": metadata\.annotations\["a\/b"\]: must be a string, got 7/,
  ],
  ["an invalid list item", "{kind: List, items: [{kind: X}]}", /^f\.yaml:1: kind is "X"/],
  [
    "a problem of an object with braces",
    "{kind: Pod, metadata: {name: A, annotations: {a: '{{ }}'}}}",
    /^f\.yaml:1: Pod "A": apiVersion: .*; metadata\.name: /,
  ],
  ["several problems", "{kind: Pod, metadata: {name: A}}", /apiVersion: .*; metadata\.name: /],
  ["a list without items", "{kind: List}", /kind is "List"/],
  ["an alias bomb", bomb(), /^f\.yaml:1: .*alias/i],
])("parseManifestFile() refuses %s and says where", (_, text, message) => {
  expect(() => parseManifestFile(text, "f.yaml")).toThrow(ManifestError);
  expect(() => parseManifestFile(text, "f.yaml")).toThrow(message);
});

/** Each level holds the one before ten times. */
function bomb(): string {
  const levels = Array.from(
    { length: 8 },
    (_, i) => `l${i + 1}: &l${i + 1} [${Array(10).fill(`*l${i}`).join(", ")}]`,
  );
  return ["l0: &l0 [x]", ...levels].join("\n");
}
