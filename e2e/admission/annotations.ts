/** A text of the networks annotation, and what the policy says of it. */
export interface AnnotationRow {
  readonly what: string;
  readonly text: string;
  /** Part of the message; undefined where it is accepted. */
  readonly refused?: string;
}

const item = "an item is not [NAMESPACE/]NAME[@INTERFACE]";
const notJson = "not a JSON list";
const element = "an element is not an object with a name";
const deep = (levels: number): string => `${'{"a":['.repeat(levels)}1${"]}".repeat(levels)}`;

export const annotationRows: readonly AnnotationRow[] = [
  { what: "a name", text: "net-a" },
  { what: "nothing", text: "" },
  { what: "white space of every kind", text: " \t\n\u00a0\u2003\u3000\ufeff" },
  {
    what: "names, namespaces and interfaces",
    text: "a, other-ns/net-c.example\n,\tother-ns / net-c @ if0 ",
  },
  { what: "an interface of other letters", text: "a@é-1.5_x" },
  { what: "32 networks", text: Array(32).fill("a").join(",") },
  { what: "an empty list", text: " [ ] " },
  { what: "a list", text: '[{"name": "a"}, {"name": "b", "namespace": "c", "interface": "eth1"}]' },
  {
    what: "every key",
    text: '[{"name":"a","namespace":"b","interface":"data0","ips":["10.2.2.42/24","2001:db8::5"],"mac":"02:23:45:67:89:AB","infiniband-guid":"C2:11:22:33:44:55:66:77","portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"udp"}],"bandwidth":{"ingressRate":2048,"ingressBurst":1e3},"cni-args":{"a":{"b":[1,{"name":null}]}},"default-route":["10.0.0.1"],"deviceID":"0000:04:00.5","ipam-claim-reference":"claim","dev.plexus.resourceClaim":{"claim":"nic"},"org.example.own":-0.5}]',
  },
  { what: "a name after what is nested", text: '[{"cni-args": {"x": [[]]}, "NAME" : "a"}]' },
  {
    what: "brackets, quotes and commas in texts",
    text: '[{"name": "a", "cni-args": {"x": "}],{\\"[\\\\", "y,": "\\u005b"}}]',
  },
  { what: "a name with an escape", text: '[{"n\\u0061me": "a"}, {"name": "\\u0061"}]' },
  { what: "two names", text: '[{"name": null, "name": "a"}]' },
  { what: "what is nested deep", text: `[{"name": "a", "cni-args": ${deep(20)}}]` },
  { what: "a long text", text: `[{"name": "a", "cni-args": {"x": "${"x".repeat(60_000)}"}}]` },
  { what: "a long list", text: `[{"name": "a", "cni-args": {"x": [${"1, ".repeat(20_000)}1]}}]` },

  { what: "a comma too many", text: "a,", refused: item },
  { what: "a comma first", text: ",a", refused: item },
  { what: "an item of white space", text: "a, ,b", refused: item },
  { what: "33 networks", text: Array(33).fill("a").join(","), refused: item },
  { what: "two slashes", text: "a/b/c", refused: item },
  { what: "two interfaces", text: "a@b@c", refused: item },
  { what: "no namespace", text: "/a", refused: item },
  { what: "no name", text: "a/", refused: item },
  { what: "no interface", text: "a@", refused: item },
  { what: "a path", text: "../../etc/passwd", refused: item },
  { what: "upper case", text: "Net-A", refused: item },
  { what: "a space inside of a name", text: "a b", refused: item },
  { what: "a semicolon", text: "a;b", refused: item },
  { what: "an object", text: '{"name": "a"}', refused: notJson },
  { what: "a text", text: '"a"', refused: notJson },
  { what: "two lists", text: '[{"name": "a"}] [{"name": "b"}]', refused: notJson },
  { what: "a comma too many in a list", text: '[{"name": "a"},]', refused: notJson },
  { what: "a comma too many in an object", text: '[{"name": "a",}]', refused: notJson },
  { what: "no comma between elements", text: '[{"name": "a"} {"name": "b"}]', refused: notJson },
  { what: "a missing bracket", text: '[{"name": "a"}', refused: notJson },
  { what: "a missing quote", text: '[{"name": "a}]', refused: notJson },
  { what: "single quotes", text: "[{'name': 'a'}]", refused: notJson },
  { what: "no quotes", text: "[{name: a}]", refused: notJson },
  { what: "a line break in a text", text: '[{"name": "a", "mac": "\n"}]', refused: notJson },
  { what: "a wrong escape", text: '[{"name": "a", "mac": "\\x"}]', refused: notJson },
  { what: "null", text: "[null]", refused: element },
  { what: "null behind an element", text: '[{"name": "a"}, null]', refused: element },
  { what: "a list of names", text: '["a", "b"]', refused: element },
  { what: "a list in the list", text: "[[]]", refused: element },
  { what: "an element without a name", text: '[{"namespace": "a"}]', refused: element },
  {
    what: "an element whose name is inside of it",
    text: '[{"cni-args": {"name": "a"}}]',
    refused: element,
  },
  { what: "an empty name", text: '[{"name": ""}]', refused: element },
  { what: "a name of upper case", text: '[{"name": "A"}]', refused: element },
  { what: "a name with its namespace", text: '[{"name": "a/b"}]', refused: element },
  { what: "a name that is a number", text: '[{"name": 1}]', refused: element },
];
