import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { limits } from "#cni/limits.ts";
import { type NetworkSelection, selectionElement } from "./network-selection.ts";
import { parseDefaultNetworkSelection, parseNetworkSelections } from "./selection.ts";
import { SelectionError } from "./selection-error.ts";

const podNamespace = "pod-ns";
const parse = (annotation: string): NetworkSelection[] =>
  parseNetworkSelections(annotation, { podNamespace });
const parseOne = (element: object): NetworkSelection | undefined =>
  parse(JSON.stringify([element]))[0];

function problemsOf(annotation: string): SelectionError["problems"] {
  try {
    parse(annotation);
  } catch (error) {
    if (error instanceof SelectionError) return error.problems;
    throw error;
  }
  return [];
}

/** The problems of one element that has a name, each as `key: reason`. */
function problemsWith(keys: object): string[] {
  const problems = problemsOf(JSON.stringify([{ name: "net", ...keys }]));
  return problems.map(({ key, reason }) => `${key}: ${reason}`);
}

function warningsOf(annotation: string): string[] {
  const warnings: string[] = [];
  const onWarning = (message: string): void => void warnings.push(message);
  parseNetworkSelections(annotation, { podNamespace, onWarning });
  return warnings;
}

const bare = { namespace: podNamespace, name: "a", position: 1 };

describe("comma-delimited format", () => {
  test("parseNetworkSelections() reads names of the pod's namespace [N-4.1.1a] [N-4.1a]", () => {
    expect(parse("net-a, net-b.example")).toEqual([
      { namespace: podNamespace, name: "net-a", position: 1 },
      { namespace: podNamespace, name: "net-b.example", position: 2 },
    ]);
  });

  test("parseNetworkSelections() reads names of other namespaces and interfaces [N-4.1.1b]", () => {
    expect(parse("other-ns/net-c\n,\tother-ns / net-c @ if0 ")).toEqual([
      { namespace: "other-ns", name: "net-c", position: 1 },
      { namespace: "other-ns", name: "net-c", ifName: "if0", position: 2 },
    ]);
  });

  test("parseNetworkSelections() keeps repeated networks as separate selections [N-4.2a]", () => {
    expect(parse("net-a,net-a").map(({ position }) => position)).toEqual([1, 2]);
  });

  test.each([
    ["net-a,", "element 2: item is empty (a comma too many?)"],
    [",net-a", "element 1: item is empty (a comma too many?)"],
    ["a, ,b", "element 2: item is empty (a comma too many?)"],
    ["a/b/c", 'element 1: more than one "/" in "a/b/c"'],
    ["a@b@c", 'element 1: more than one "@" in "a@b@c"'],
    ["/a", 'element 1, key "namespace": must not be empty'],
    ["a/", 'element 1, key "name": must not be empty'],
    ["a@", 'element 1, key "interface": interface name is empty'],
    ["a@0123456789abcdef", 'interface name is too long, got "0123456789abcdef"'],
    ["..", 'element 1, key "name": must be a DNS-1123 subdomain'],
    ["../../etc/passwd", 'more than one "/"'],
    ["../etc", 'key "namespace": must be a DNS-1123 label (a-z, 0-9 and \'-\'), got ".."'],
    ["Net-A", "must be a DNS-1123 subdomain"],
    ["nét", "must be a DNS-1123 subdomain"],
    ["net\u0000", "must be a DNS-1123 subdomain"],
    ["a.b/net", "must be a DNS-1123 label"],
    [`${"a".repeat(64)}/net`, "must be at most 63 characters long"],
    ["a".repeat(254), "must be at most 253 characters long"],
    ["a b", "must be a DNS-1123 subdomain"],
  ])("parseNetworkSelections(%j) is refused [N-3.3a]", (annotation, message) => {
    expect(() => parse(annotation)).toThrow(message);
  });
});

describe("JSON list format", () => {
  test("parseNetworkSelections() reads every key [N-4.1.2a] [N-4.1a]", () => {
    const element = {
      name: "net-b",
      namespace: "other-ns",
      interface: "data0",
      ips: ["10.2.2.42/24", "2001:db8::5"],
      mac: "02-23-45-67-89-AB",
      "infiniband-guid": "C2:11:22:33:44:55:66:77",
      portMappings: [{ hostPort: 8080, containerPort: 80 }],
      bandwidth: { ingressRate: 2048 },
      "cni-args": { spoofchk: "on" },
      "default-route": ["10.0.0.1"],
      deviceID: "0000:04:00.5",
      "ipam-claim-reference": "claim",
      "org.example.own": 1,
    };
    expect(parseOne(element)).toEqual({
      namespace: "other-ns",
      name: "net-b",
      ifName: "data0",
      ips: ["10.2.2.42/24", "2001:db8::5"],
      mac: "02:23:45:67:89:ab",
      infinibandGuid: "c2:11:22:33:44:55:66:77",
      portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
      bandwidth: { ingressRate: 2048 },
      cniArgs: { spoofchk: "on" },
      defaultRoute: ["10.0.0.1"],
      deviceId: "0000:04:00.5",
      ipamClaimReference: "claim",
      position: 1,
    });
  });

  test("parseNetworkSelections() treats a missing or empty namespace as the pod's [N-4.1.2.1.1]", () => {
    expect(parseOne({ name: "a" })).toEqual(bare);
    expect(parseOne({ name: "a", namespace: "" })).toEqual(bare);
    expect(problemsOf('[{"namespace": "a"}, {"name": ""}, {"name": 1}]')).toEqual([
      { position: 1, key: "name", reason: "is missing" },
      { position: 2, key: "name", reason: "must not be empty" },
      { position: 3, key: "name", reason: "must be a string, got 1" },
    ]);
  });

  test("parseNetworkSelections() refuses names with path characters [S-302] [N-3.3a]", () => {
    const paths = [
      "../a",
      "a/b",
      "a\\b",
      ".",
      "a..b",
      ".a",
      "-a",
      "a-",
      "A",
      "ｎet",
      "a\n",
      "a%2fb",
    ];
    for (const name of paths) expect(problemsWith({ name })).toHaveLength(1);
  });

  test.each([
    ["{}", "must be a JSON list of objects, got {}"],
    ['"net"', 'must be a JSON list of objects, got "net"'],
    ["[null]", "element 1: must be an object, got null"],
    ['["net"]', 'element 1: must be an object, got "net"'],
    ["[[]]", "element 1: must be an object, got []"],
    [
      '[{"name": "a",}]',
      'not valid JSON: unexpected "}", expected a key in double quotes at line 1, column 15',
    ],
    ["[", 'not valid JSON: unexpected end, expected a value or "]" at line 1, column 2'],
  ])("parseNetworkSelections(%j) is refused", (annotation, message) => {
    expect(() => parse(annotation)).toThrow(`network selection annotation is invalid: ${message}`);
  });

  test("parseNetworkSelections() uses the last value of a repeated key, as Go does", () => {
    expect(parse('[{"name": "a", "name": "b"}]')[0]?.name).toBe("b");
  });

  test("parseNetworkSelections() reads keys in any case, as Go does, and warns", () => {
    const text = '[{"Name": "a", "MAC": "02:00:00:00:00:01", "mac": "02:00:00:00:00:02"}]';
    expect(parse(text)).toEqual([{ ...bare, mac: "02:00:00:00:00:02" }]);
    expect(warningsOf(text)).toEqual([
      'network selection annotation: element 1, key "Name": read as "name", its value being "a"',
      'network selection annotation: element 1, key "MAC": ignored in favor of "mac", its value being "02:00:00:00:00:01"',
    ]);
  });

  test("parseNetworkSelections() ignores unknown keys and warns of the reserved ones [N-4.1.2.1a]", () => {
    const text = '[{"name": "a", "dns": {}, "org.foo.bar": [], "__proto__": {"mac": "x"}}]';
    expect(parse(text)).toEqual([bare]);
    const keys = warningsOf(text).map((warning) => /key "(\w+)".*unknown/.exec(warning)?.[1]);
    expect(keys).toEqual(["dns", "__proto__"]);
  });

  test.each([
    ["ip", "ips"],
    ["IpAddress", undefined],
    ["interfaceReques", "interfaceRequest"],
    ["interfaceR", "interface"],
    ["1", undefined],
  ])("the warning about the unknown key %j suggests %s", (key, suggested) => {
    const [warning] = warningsOf(JSON.stringify([{ name: "a", [key]: 1 }]));
    expect(/did you mean (.*)\?/.exec(warning ?? "")?.[1]).toBe(suggested);
  });

  test("parseNetworkSelections() warns of unknown keys inside of bandwidth and portMappings", () => {
    const bandwidth = { IngressRate: 8, egresRate: 8 };
    const portMappings = [
      { hostPort: 1, containerPort: 1 },
      { hostPort: 2, containerPort: 2, hostIp: "", ip: "x" },
    ];
    expect(warningsOf(JSON.stringify([{ name: "a", bandwidth, portMappings }]))).toEqual([
      'network selection annotation: element 1, key "bandwidth.egresRate": unknown key, ignored, its value being 8; did you mean egressRate?',
      'network selection annotation: element 1, key "portMappings[1].ip": unknown key, ignored, its value being "x"',
    ]);
  });
});

const ips = ["10.2.2.42/24", "10.2.2.42", "2001:db8::5/64", "2001:db8::5"];
const infiniband = "80:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22";
const rates = { ingressRate: 2048, ingressBurst: 300, egressRate: 8000, egressBurst: 200 };
const ports = [
  { hostPort: 1, containerPort: 65_535 },
  { hostPort: 53, containerPort: 53, protocol: "Udp", hostIP: "192.0.2.1" },
  { HostPort: 9, ContainerPort: 9, Protocol: "SCTP", HostIP: "" },
];
const readPorts = [
  { hostPort: 1, containerPort: 65_535, protocol: "tcp" },
  { hostPort: 53, containerPort: 53, protocol: "udp", hostIP: "192.0.2.1" },
  { hostPort: 9, containerPort: 9, protocol: "sctp" },
];
const claimKey = "dev.plexus.resourceClaim";
const request = { claim: "nic", request: "left" };

describe("values", () => {
  test.each<[what: string, keys: object, read: Partial<NetworkSelection>]>([
    ["a namespace", { namespace: "other" }, { namespace: "other" }],
    ["Multus' old key", { interfaceRequest: "old0" }, { ifName: "old0" }],
    ["the newer key first", { interfaceRequest: "old0", interface: "new0" }, { ifName: "new0" }],
    ["empty as absent (multus.md §1.5)", { interface: "", interfaceRequest: "o" }, { ifName: "o" }],
    ["addresses with and without a prefix", { ips }, { ips }],
    ["a MAC of 6 bytes", { mac: "02:00:00:00:00:0A" }, { mac: "02:00:00:00:00:0a" }],
    ["a MAC with hyphens", { mac: "02-00-00-00-00-0a" }, { mac: "02:00:00:00:00:0a" }],
    ["a MAC with dots", { mac: "0200.0000.000a" }, { mac: "02:00:00:00:00:0a" }],
    ["a MAC of 8 bytes", { mac: "02:00:00:00:00:00:00:0A" }, { mac: "02:00:00:00:00:00:00:0a" }],
    ["a MAC of 20 bytes", { mac: infiniband }, { mac: infiniband.toLowerCase() }],
    ["a cni-args object", { "cni-args": { a: { b: [1] } } }, { cniArgs: { a: { b: [1] } } }],
    ["port mappings", { portMappings: ports }, { portMappings: readPorts as never }],
    ["bandwidth limits", { bandwidth: rates }, { bandwidth: rates }],
    ["no default gateway", { "default-route": [] }, { defaultRoute: [] }],
    [
      "default gateways",
      { "default-route": ["10.0.0.1", "fe80::1"] },
      { defaultRoute: ["10.0.0.1", "fe80::1"] },
    ],
    ["a claim", { [claimKey]: { claim: "nic" } }, { resourceClaim: { claim: "nic" } }],
    ["a request of a claim", { [claimKey]: request }, { resourceClaim: request }],
  ])(
    "parseNetworkSelections() reads %s: %j [D-28] [N-4.1.2.1.2] [N-4.1.2.1.3a] [N-4.1.2.1.4a] [N-4.1.2.1.6a] [N-4.1.2.1.7a] [N-4.1.2.1.8a] [N-4.1.2.1.9a]",
    (_, keys, read) => {
      expect(parseOne({ name: "a", ...keys })).toEqual({ ...bare, ...read });
    },
  );

  test.each<[keys: object, problem: string]>([
    [{ namespace: "../x" }, "namespace: must be a DNS-1123 label (a-z, 0-9 and '-'), got \"../x\""],
    [
      { name: "ns/net" },
      "name: must be a DNS-1123 subdomain (a-z, 0-9, '-' and '.'); the namespace has the key \"namespace\", got \"ns/net\"",
    ],
    [
      { name: "net@eth1" },
      "name: must be a DNS-1123 subdomain (a-z, 0-9, '-' and '.'); the interface has the key \"interface\", got \"net@eth1\"",
    ],
    [{ ips: "10.0.0.1" }, 'ips: must be an array, got "10.0.0.1"'],
    [{ ips: "" }, 'ips: must be an array, got ""'],
    [{ mac: 1 }, "mac: must be a string, got 1"],
    [
      { "infiniband-guid": "02:00:00:00:00:01" },
      'infiniband-guid: must be an 8-byte InfiniBand GUID, got "02:00:00:00:00:01"',
    ],
    [{ "cni-args": ["a"] }, 'cni-args: must be an object, got ["a"]'],
    [
      { "default-route": ["10.0.0.1/24"] },
      'default-route[0]: must be an IPv4 or IPv6 address, got "10.0.0.1/24"',
    ],
    [{ "default-route": "10.0.0.1" }, 'default-route: must be an array, got "10.0.0.1"'],
    [{ [claimKey]: "nic" }, `${claimKey}: must be an object, got "nic"`],
    [{ [claimKey]: { request: "left" } }, `${claimKey}.claim: is missing`],
    [
      { [claimKey]: { claim: "../x" } },
      `${claimKey}.claim: must be a DNS-1123 label (a-z, 0-9 and '-'), got "../x"`,
    ],
    [{ [claimKey]: { claim: "nic", claims: "x" } }, `${claimKey}.claims: unknown key`],
  ])(
    "parseNetworkSelections() refuses %j [D-28] [N-4.1.2.1.2] [N-4.1.2.1.3b] [N-4.1.2.1.4b] [N-4.1.2.1.6a] [N-4.1.2.1.9a]",
    (keys, problem) => {
      expect(problemsWith(keys)).toEqual([problem]);
    },
  );

  test("parseNetworkSelections() refuses invalid ips [N-4.1.2.1.3b]", () => {
    const addresses = ["10.0.0.1/33", "10.0.0.01", "::/129", "host", "", "fe80::1%eth0"];
    const bad = [...addresses, 1, "10.0.0.1/", "10.0.0.1/24/8"];
    expect(problemsWith({ ips: bad }).map((problem) => problem.split(":")[0])).toEqual(
      bad.map((_, index) => `ips[${index}]`),
    );
  });

  test.each([
    "zz",
    " ",
    "02:00:00:00:00",
    "02:00-00:00:00:01",
    "02000000000a",
    "2:0:0:0:0:1",
    "0200.0000.00:0a",
    "02:00:00:00:00:0g",
    "02:00:00:00:00:00a",
    "0200.0000.000g",
    "0200.0000.00000a",
    "0200.0000.0g00a",
  ])("parseNetworkSelections() refuses the mac %j [N-4.1.2.1.4b]", (mac) => {
    expect(problemsWith({ mac })).toEqual([
      `mac: must be a 6-byte, 8-byte or 20-byte hardware address, got ${JSON.stringify(mac)}`,
    ]);
  });

  test("parseNetworkSelections() accepts only interface names that the kernel accepts [N-4.1.2.1.5a]", () => {
    for (const ifName of ["eth0", "a", "0123456789abcde", "net-1.5_x", "é", "Ethernet"]) {
      expect(parseOne({ name: "a", interface: ifName })).toEqual({ ...bare, ifName });
    }
    const invalid = ["0123456789abcdef", "a b", "a/b", "a:b", ".", "..", "ﬀﬀﬀﬀﬀﬀ"];
    for (const name of [...invalid, "net%d", "all", "default", "a\u0000", "\u001b[2J"]) {
      expect(problemsWith({ interface: name }), name).toHaveLength(1);
      expect(problemsWith({ interfaceRequest: name }), name).toHaveLength(1);
    }
  });

  test("parseNetworkSelections() refuses numbers out of range in cni-args", () => {
    expect(() => parse('[{"name": "a", "cni-args": {"rate": 1e400}}]')).toThrow(
      'number 1e400 of key "rate" is out of range at line 1, column 37',
    );
  });

  const port = { hostPort: 1, containerPort: 1 };
  const range = "must be an integer from 1 to 65535, got";

  test.each([
    [{}, "portMappings: must be an array, got {}"],
    [[1], "portMappings[0]: must be an object, got 1"],
    [[{ hostPort: 1 }], "portMappings[0].containerPort: is missing"],
    [[{ containerPort: 1 }], "portMappings[0].hostPort: is missing"],
    [[{ hostPort: null, containerPort: 1 }], "portMappings[0].hostPort: is missing"],
    [[{ ...port, hostPort: 0 }], `portMappings[0].hostPort: ${range} 0`],
    [[{ ...port, containerPort: 65_536 }], `portMappings[0].containerPort: ${range} 65536`],
    [[{ ...port, hostPort: 1.5 }], `portMappings[0].hostPort: ${range} 1.5`],
    [[{ ...port, hostPort: "1" }], `portMappings[0].hostPort: ${range} "1"`],
    [
      [{ ...port, protocol: "icmp" }],
      'portMappings[0].protocol: must be TCP, UDP or SCTP, got "icmp"',
    ],
    [
      [{ ...port, hostIP: "x" }],
      'portMappings[0].hostIP: must be an IPv4 or IPv6 address, got "x"',
    ],
  ])("parseNetworkSelections() refuses portMappings %j [N-4.1.2.1.7b]", (portMappings, problem) => {
    expect(problemsWith({ portMappings })).toEqual([problem]);
  });

  test.each([
    [[], "bandwidth: must be an object, got []"],
    [{ egressRate: -1 }, "bandwidth.egressRate: must be a non-negative integer, got -1"],
    [{ egressRate: "1M" }, 'bandwidth.egressRate: must be a non-negative integer, got "1M"'],
    [{ egressRate: 1.5 }, "bandwidth.egressRate: must be a non-negative integer, got 1.5"],
    [
      { egressRate: 1e16 },
      "bandwidth.egressRate: must be an integer from 0 to 9007199254740991, got 10000000000000000",
    ],
    [{ ingressBurst: 5, ingressRate: 0 }, "bandwidth.ingressBurst: needs ingressRate"],
    [{ ingressBurst: 5 }, "bandwidth.ingressBurst: needs ingressRate"],
    [{ ingressBurst: 5, ingressRate: null }, "bandwidth.ingressBurst: needs ingressRate"],
    [{ ingressRate: 5, egressBurst: 6 }, "bandwidth.egressBurst: needs egressRate"],
  ])("parseNetworkSelections() refuses bandwidth %j [N-4.1.2.1.8b]", (bandwidth, problem) => {
    expect(problemsWith({ bandwidth })).toEqual([problem]);
  });

  test("parseNetworkSelections() refuses a rate beyond 2^53 with its digits [N-4.1.2.1.8b]", () => {
    const annotation = '[{"name": "a", "bandwidth": {"ingressRate": 9007199254740993}}]';
    const reason = "must be an integer from 0 to 9007199254740991, got 9007199254740993";
    expect(problemsOf(annotation)).toMatchObject([{ key: "bandwidth.ingressRate", reason }]);
  });

  test("parseNetworkSelections() keeps the digits of integers in cni-args, and so does the record", () => {
    const element = parse('[{"name": "a", "cni-args": {"id": 9007199254740993}}]')[0];
    expect(JSON.stringify(element?.cniArgs)).toBe('{"id":9007199254740993}');
    const recorded = selectionElement(element as NetworkSelection);
    expect(JSON.stringify(recorded.cniArgs)).toBe('{"id":9007199254740993}');
  });

  test("parseNetworkSelections() rejects two elements with a default-route of one family or an empty one [N-4.1.2.1.9d]", () => {
    const text =
      '[{"name": "a", "default-route": []}, {"name": "b"}, {"name": "c", "default-route": ["10.0.0.1"]}]';
    expect(() => parse(text)).toThrow(
      'network selection annotation is invalid: element 3, key "default-route": only one element may have the default route of a family: element 1 asks for the one of IPv4 already, this one with ["10.0.0.1"]',
    );
    const [v4, v6] = [{ "default-route": ["10.0.0.1"] }, { "default-route": ["fd00::1"] }];
    const asking = (...elements: object[]): string =>
      JSON.stringify(elements.map((element) => ({ name: "a", ...element })));
    expect(problemsOf(asking(v4, v4))).toHaveLength(1);
    expect(problemsOf(asking(v4, { "default-route": ["10.0.0.2", "fd00::1"] }))).toHaveLength(1);
    expect(problemsOf(asking(v6, { "default-route": [] }))).toHaveLength(1);
  });

  test("parseNetworkSelections() accepts default-routes of IPv4 and IPv6 on two elements, as Multus does (multus.md §2.8)", () => {
    const text =
      '[{"name": "a", "default-route": ["10.0.0.1"]}, {"name": "b", "default-route": ["fd00::1"]}]';
    expect(parse(text).map(({ defaultRoute }) => defaultRoute)).toEqual([
      ["10.0.0.1"],
      ["fd00::1"],
    ]);
  });

  test("parseNetworkSelections() treats empty values and null as absent, as Multus does (multus.md §1.5)", () => {
    const texts = ["mac", "interface", "interfaceRequest", "infiniband-guid", "deviceID"];
    const empty = {
      ...Object.fromEntries(
        [...texts, "ipam-claim-reference", "namespace"].map((key) => [key, ""]),
      ),
      ...{ ips: [], portMappings: [], bandwidth: {}, [claimKey]: {} },
    };
    const keys = [...Object.keys(empty), "cni-args", "default-route"];
    const nulls = Object.fromEntries(keys.map((key) => [key, null]));
    const emptyParts = { "cni-args": {}, bandwidth: { ingressRate: null } };
    for (const each of [empty, nulls, emptyParts]) {
      expect(parseOne({ name: "a", ...each })).toEqual(bare);
    }
  });

  const zeros = { ingressRate: 0, ingressBurst: 0, egressRate: 0, egressBurst: 0 };
  const mapping = { hostPort: 8080, containerPort: 80 };
  const readMapping = { ...mapping, protocol: "tcp" } as const;

  // The standard's own Go types write every limit, and cni-args, also where they are not set.
  test.each<[written: string, read: Partial<NetworkSelection>]>([
    ['"cni-args": null', {}],
    [`"bandwidth": ${JSON.stringify(zeros)}`, {}],
    ['"bandwidth": {"ingressRate": -0, "egressRate": 0.0, "egressBurst": 0e3}', {}],
    [
      `"bandwidth": ${JSON.stringify({ ...zeros, ingressRate: 1e6, ingressBurst: 8e5 })}`,
      { bandwidth: { ingressRate: 1_000_000, ingressBurst: 800_000 } },
    ],
    [
      `"bandwidth": ${JSON.stringify({ ...zeros, egressRate: 7 })}`,
      { bandwidth: { egressRate: 7 } },
    ],
    ['"bandwidth": {"ingressRate": 1e6}', { bandwidth: { ingressRate: 1_000_000 } }],
    ['"bandwidth": {"ingressRate": 7.0}', { bandwidth: { ingressRate: 7 } }],
    [
      `"portMappings": [${JSON.stringify({ ...mapping, protocol: "", hostIP: "" })}]`,
      { portMappings: [readMapping] },
    ],
    [
      `"portMappings": [${JSON.stringify({ ...mapping, protocol: null, hostIP: null })}]`,
      { portMappings: [readMapping] },
    ],
    [
      `"${claimKey}": ${JSON.stringify({ claim: "nic", request: "" })}`,
      { resourceClaim: { claim: "nic" } },
    ],
  ])(
    "parseNetworkSelections() ignores the zero values of Go clients: %s [N-4.1.2.1.7a] [N-4.1.2.1.8a]",
    (written, read) => {
      expect(parse(`[{"name": "a", ${written}}]`)).toEqual([{ ...bare, ...read }]);
    },
  );
});

describe("the annotation as a whole", () => {
  test.each(["", " \n\t", "[]", " [ ] "])("parseNetworkSelections(%j) is empty", (text) => {
    expect(parse(text)).toEqual([]);
  });

  test("parseNetworkSelections() collects all problems and lists the first ones in its message", () => {
    const text = '[{"name": "ok"}, {"name": "b", "mac": "zz", "ips": ["x"]}, 3]';
    expect(problemsOf(text).map(({ position, key }) => [position, key])).toEqual([
      [2, "ips[0]"],
      [2, "mac"],
      [3, ""],
    ]);
    expect(() => parse(text)).toThrow(
      'network selection annotation is invalid: element 2, key "ips[0]": must be an IPv4 or IPv6 address with an optional prefix length, got "x"; element 2, key "mac": must be a 6-byte, 8-byte or 20-byte hardware address, got "zz"; element 3',
    );
    expect(() => parse(text)).toThrow(
      expect.objectContaining({ name: "SelectionError", code: 100 }),
    );
    expect(() => parse(",".repeat(20))).toThrow(/; and 16 more$/);
  });

  test("parseNetworkSelections() limits the number of networks", () => {
    const names = (count: number): string => new Array(count).fill("a").join(",");
    expect(parse(names(32))).toHaveLength(32);
    expect(() => parse(names(33))).toThrow(
      new CniError(
        "OverLimit",
        "the network selection annotation has 33 networks, more than the limit of 32",
      ),
    );
  });

  test("parseNetworkSelections() and parseDefaultNetworkSelection() limit the annotation's size", () => {
    const sized = (bytes: number): string => `a${" ".repeat(bytes - 3)}\u00a0`;
    expect(parse(sized(65_536))).toHaveLength(1);
    expect(() => parse(sized(65_537))).toThrow(
      "the network selection annotation has 65537 bytes, more than the limit of 65536",
    );
    expect(() =>
      parseDefaultNetworkSelection(sized(65_537), { defaultNamespace: "kube-system" }),
    ).toThrow("the default network annotation has 65537 bytes");
  });

  test("parseNetworkSelections() limits the number and length of its warnings", () => {
    const keys = Object.fromEntries(
      Array.from({ length: 100 }, (_, i) => [`${"k".repeat(300)}${i}`, "v".repeat(300)]),
    );
    const warnings = warningsOf(JSON.stringify([{ name: "a", ...keys }]));
    expect(warnings).toHaveLength(20);
    expect(Math.max(...warnings.map(({ length }) => length))).toBeLessThan(300);
  });

  test("parseNetworkSelections() rejects deep nesting without a stack overflow", () => {
    expect(() => parse("[".repeat(60_000))).toThrow(
      "nested more than 100 levels deep at line 1, column 101",
    );
    const deep = `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`;
    expect(() => parse(`[{"name": "a", "cni-args": ${deep}}]`)).toThrow(SelectionError);
  });

  test("parseNetworkSelections() rejects garbage of the maximum size", () => {
    const all = ["\u0000", "[{", '"', "a,", "/@", "é", "[1,", "\\", '{"name":"a"},', "\ud800"];
    for (const garbage of all) {
      const annotation = garbage.repeat(limits.annotation.max / Buffer.byteLength(garbage));
      expect(() => parse(annotation)).toThrow(expect.objectContaining({ code: 100 }));
    }
  });

  test("parseNetworkSelections() returns selections or throws a SelectionError for any text", () => {
    const keys = ["name", "mac", "ips", "default-route", "bandwidth", "portMappings", "x"];
    const element = fc.dictionary(fc.constantFrom(...keys), fc.jsonValue());
    const list = fc.array(element).map((elements) => JSON.stringify(elements));
    const text = fc.oneof(fc.string(), fc.json(), list);
    fc.assert(
      fc.property(text, (annotation) => {
        try {
          return parse(annotation).every(({ name }) => /^[a-z0-9.-]+$/.test(name));
        } catch (error) {
          return error instanceof SelectionError && error.problems.length > 0;
        }
      }),
    );
  });
});

describe("the default network's annotation", () => {
  const options = { defaultNamespace: "kube-system" };

  test("parseDefaultNetworkSelection() reads one element in either format", () => {
    expect(parseDefaultNetworkSelection("net@eth9", options)).toEqual({
      namespace: "kube-system",
      name: "net",
      ifName: "eth9",
      position: 1,
    });
    expect(
      parseDefaultNetworkSelection('[{"name": "net", "namespace": "a"}]', options).namespace,
    ).toBe("a");
  });

  test.each(["", "a,b", "[]", " "])("parseDefaultNetworkSelection(%j) is refused", (annotation) => {
    expect(() => parseDefaultNetworkSelection(annotation, options)).toThrow(
      /default network annotation is invalid: .*must name exactly one/,
    );
  });
});
