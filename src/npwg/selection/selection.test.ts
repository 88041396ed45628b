import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { limits } from "#cni/limits.ts";
import type { NetworkSelection } from "./network-selection.ts";
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

  test("parseNetworkSelections() keeps repeated networks apart [N-4.2a]", () => {
    expect(parse("net-a,net-a").map(({ position }) => position)).toEqual([1, 2]);
  });

  test.each([
    ["net-a,", "element 2: item is empty (a comma too many?)"],
    [",net-a", "element 1: item is empty (a comma too many?)"],
    ["a,,b", "element 2: item is empty (a comma too many?)"],
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

  test("parseNetworkSelections() takes a missing or empty namespace as the pod's [N-4.1.2.1.1]", () => {
    expect(parseOne({ name: "a" })?.namespace).toBe(podNamespace);
    expect(parseOne({ name: "a", namespace: "" })?.namespace).toBe(podNamespace);
    expect(problemsOf('[{"namespace": "a"}, {"name": ""}, {"name": 1}]')).toEqual([
      { position: 1, key: "name", reason: "is missing" },
      { position: 2, key: "name", reason: "must not be empty" },
      { position: 3, key: "name", reason: "must be a string, got 1" },
    ]);
  });

  test("parseNetworkSelections() takes a namespace [N-4.1.2.1.2]", () => {
    expect(parseOne({ name: "a", namespace: "other" })?.namespace).toBe("other");
    expect(problemsWith({ namespace: "../x" })).toEqual([
      "namespace: must be a DNS-1123 label (a-z, 0-9 and '-'), got \"../x\"",
    ]);
  });

  test("parseNetworkSelections() refuses names with path characters [S-302] [N-3.3a]", () => {
    for (const name of [
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
    ]) {
      expect(problemsWith({ name })).toHaveLength(1);
    }
  });

  test.each([
    ["{}", "must be a JSON list of objects, got {}"],
    ['"net"', 'must be a JSON list of objects, got "net"'],
    ["[null]", "element 1: must be an object, got null"],
    ['["net"]', 'element 1: must be an object, got "net"'],
    ["[[]]", "must be an object, got []"],
    [
      '[{"name": "a",}]',
      'not valid JSON: unexpected "}", expected a key in double quotes at line 1, column 15',
    ],
    ["[", 'not valid JSON: unexpected end, expected a value or "]" at line 1, column 2'],
  ])("parseNetworkSelections(%j) is refused", (annotation, message) => {
    expect(() => parse(annotation)).toThrow(message);
  });

  test("parseNetworkSelections() takes the last of a repeated key, as Go does", () => {
    expect(parse('[{"name": "a", "name": "b"}]')[0]?.name).toBe("b");
  });

  test("parseNetworkSelections() reads keys in any case, as Go does, and warns", () => {
    const warnings: string[] = [];
    const options = {
      podNamespace,
      onWarning: (message: string): void => void warnings.push(message),
    };
    const text = '[{"Name": "a", "MAC": "02:00:00:00:00:01", "mac": "02:00:00:00:00:02"}]';
    expect(parseNetworkSelections(text, options)[0]).toMatchObject({
      name: "a",
      mac: "02:00:00:00:00:02",
    });
    expect(warnings).toEqual([
      'network selection annotation: element 1, key "Name": read as "name", its value being "a"',
      'network selection annotation: element 1, key "MAC": ignored in favor of "mac", its value being "02:00:00:00:00:01"',
    ]);
  });

  test("parseNetworkSelections() ignores unknown keys and warns of the reserved ones [N-4.1.2.1a]", () => {
    const warnings: string[] = [];
    const options = {
      podNamespace,
      onWarning: (message: string): void => void warnings.push(message),
    };
    const text = '[{"name": "a", "dns": {}, "org.foo.bar": [], "__proto__": {"mac": "x"}}]';
    expect(parseNetworkSelections(text, options)).toEqual([
      { namespace: podNamespace, name: "a", position: 1 },
    ]);
    expect(warnings.map((warning) => /key "(\w+)".*unknown/.exec(warning)?.[1])).toEqual([
      "dns",
      "__proto__",
    ]);
  });

  test("parseNetworkSelections() prefers interface to Multus' old interfaceRequest", () => {
    expect(parseOne({ name: "a", interfaceRequest: "old0" })?.ifName).toBe("old0");
    expect(parseOne({ name: "a", interfaceRequest: "old0", interface: "new0" })?.ifName).toBe(
      "new0",
    );
  });
});

describe("values", () => {
  test("parseNetworkSelections() takes addresses with and without a prefix [N-4.1.2.1.3a]", () => {
    const ips = ["10.2.2.42/24", "10.2.2.42", "2001:db8::5/64", "2001:db8::5"];
    expect(parseOne({ name: "a", ips })?.ips).toEqual(ips);
  });

  test("parseNetworkSelections() refuses invalid ips [N-4.1.2.1.3b]", () => {
    expect(problemsWith({ ips: "10.0.0.1" })).toEqual(['ips: must be an array, got "10.0.0.1"']);
    expect(problemsWith({ ips: "" })).toEqual(['ips: must be an array, got ""']);
    const bad = [
      "10.0.0.1/33",
      "10.0.0.01",
      "::/129",
      "host",
      "",
      1,
      "fe80::1%eth0",
      "10.0.0.1/",
      "10.0.0.1/24/8",
    ];
    expect(problemsWith({ ips: bad }).map((problem) => problem.split(":")[0])).toEqual(
      bad.map((_, index) => `ips[${index}]`),
    );
  });

  test("parseNetworkSelections() takes a mac of 6, of 8 and of 20 bytes in Go's forms [N-4.1.2.1.4a]", () => {
    const infiniband = "80:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22";
    const mac = (text: string): string | undefined => parseOne({ name: "a", mac: text })?.mac;
    expect(mac("02:00:00:00:00:0A")).toBe("02:00:00:00:00:0a");
    expect(mac("02-00-00-00-00-0a")).toBe("02:00:00:00:00:0a");
    expect(mac("0200.0000.000a")).toBe("02:00:00:00:00:0a");
    expect(mac("02:00:00:00:00:00:00:0A")).toBe("02:00:00:00:00:00:00:0a");
    expect(mac(infiniband)).toBe(infiniband.toLowerCase());
  });

  test("parseNetworkSelections() refuses invalid macs, such as one of 5 bytes [N-4.1.2.1.4b]", () => {
    const bad = [
      "zz",
      " ",
      "02:00:00:00:00",
      "02:00-00:00:00:01",
      "02000000000a",
      "2:0:0:0:0:1",
      "0200.0000.00:0a",
    ];
    for (const mac of bad) {
      expect(problemsWith({ mac })).toEqual([
        `mac: must be a 6-byte, 8-byte or 20-byte hardware address, got ${JSON.stringify(mac)}`,
      ]);
    }
    expect(problemsWith({ mac: 1 })).toEqual(["mac: must be a string, got 1"]);
  });

  test("parseNetworkSelections() takes an InfiniBand GUID of 8 bytes only", () => {
    expect(problemsWith({ "infiniband-guid": "02:00:00:00:00:01" })).toEqual([
      'infiniband-guid: must be an 8-byte InfiniBand GUID, got "02:00:00:00:00:01"',
    ]);
  });

  test.each([
    "0123456789abcdef",
    "a b",
    "a/b",
    "a:b",
    ".",
    "..",
    "ﬀﬀﬀﬀﬀﬀ",
    "net%d",
    "all",
    "default",
    "a\u0000",
    "\u001b[2J",
  ])("parseNetworkSelections() refuses interface %j [N-4.1.2.1.5a]", (name) => {
    expect(problemsWith({ interface: name })).toHaveLength(1);
    expect(problemsWith({ interfaceRequest: name })).toHaveLength(1);
  });

  test("parseNetworkSelections() takes cni-args that are a dict, and nothing else [N-4.1.2.1.6a]", () => {
    expect(parseOne({ name: "a", "cni-args": { a: { b: [1] } } })?.cniArgs).toEqual({
      a: { b: [1] },
    });
    const infinite = '[{"name": "a", "cni-args": {"rate": 1e400}}]';
    expect(() => parseNetworkSelections(infinite, { podNamespace: "ns" })).toThrow(
      'number 1e400 of key "rate" is out of range at line 1, column 37',
    );
    expect(problemsWith({ "cni-args": ["a"] })).toEqual(['cni-args: must be an object, got ["a"]']);
  });

  test("parseNetworkSelections() takes port mappings [N-4.1.2.1.7a]", () => {
    const portMappings = [
      { hostPort: 1, containerPort: 65_535 },
      { hostPort: 53, containerPort: 53, protocol: "Udp", hostIP: "192.0.2.1" },
      { HostPort: 9, ContainerPort: 9, Protocol: "SCTP", HostIP: "" },
    ];
    expect(parseOne({ name: "a", portMappings })?.portMappings).toEqual([
      { hostPort: 1, containerPort: 65_535, protocol: "tcp" },
      { hostPort: 53, containerPort: 53, protocol: "udp", hostIP: "192.0.2.1" },
      { hostPort: 9, containerPort: 9, protocol: "sctp" },
    ]);
  });

  test.each([
    [{}, "portMappings: must be an array, got {}"],
    [[1], "portMappings[0]: must be an object, got 1"],
    [[{ hostPort: 1 }], "portMappings[0].containerPort: is missing"],
    [[{ containerPort: 1 }], "portMappings[0].hostPort: is missing"],
    [[{ hostPort: null, containerPort: 1 }], "portMappings[0].hostPort: is missing"],
    [
      [{ hostPort: 0, containerPort: 1 }],
      "portMappings[0].hostPort: must be an integer from 1 to 65535, got 0",
    ],
    [
      [{ hostPort: 1, containerPort: 65_536 }],
      "portMappings[0].containerPort: must be an integer from 1 to 65535, got 65536",
    ],
    [
      [{ hostPort: 1.5, containerPort: 1 }],
      "portMappings[0].hostPort: must be an integer from 1 to 65535, got 1.5",
    ],
    [
      [{ hostPort: "1", containerPort: 1 }],
      'portMappings[0].hostPort: must be an integer from 1 to 65535, got "1"',
    ],
    [
      [{ hostPort: 1, containerPort: 1, protocol: "icmp" }],
      'portMappings[0].protocol: must be TCP, UDP or SCTP, got "icmp"',
    ],
    [
      [{ hostPort: 1, containerPort: 1, hostIP: "x" }],
      'portMappings[0].hostIP: must be an IPv4 or IPv6 address, got "x"',
    ],
  ])("parseNetworkSelections() refuses portMappings %j [N-4.1.2.1.7b]", (portMappings, problem) => {
    expect(problemsWith({ portMappings })).toEqual([problem]);
  });

  test("parseNetworkSelections() takes bandwidth limits [N-4.1.2.1.8a]", () => {
    const bandwidth = { ingressRate: 2048, ingressBurst: 300, egressRate: 8000, egressBurst: 200 };
    expect(parseOne({ name: "a", bandwidth })?.bandwidth).toEqual(bandwidth);
  });

  test.each([
    [[], "bandwidth: must be an object, got []"],
    [{ ingressRate: 0 }, "bandwidth.ingressRate: must be a positive integer, got 0"],
    [{ egressRate: -1 }, "bandwidth.egressRate: must be a positive integer, got -1"],
    [{ egressRate: "1M" }, 'bandwidth.egressRate: must be a positive integer, got "1M"'],
    [{ ingressBurst: 5 }, "bandwidth.ingressBurst: needs ingressRate"],
    [{ ingressBurst: 5, ingressRate: null }, "bandwidth.ingressBurst: needs ingressRate"],
    [{ ingressRate: 5, egressBurst: 6 }, "bandwidth.egressBurst: needs egressRate"],
  ])("parseNetworkSelections() refuses bandwidth %j [N-4.1.2.1.8b]", (bandwidth, problem) => {
    expect(problemsWith({ bandwidth })).toEqual([problem]);
  });

  test("parseNetworkSelections() takes gateways, none included [N-4.1.2.1.9a]", () => {
    expect(parseOne({ name: "a", "default-route": [] })?.defaultRoute).toEqual([]);
    expect(
      parseOne({ name: "a", "default-route": ["10.0.0.1", "fe80::1"] })?.defaultRoute,
    ).toHaveLength(2);
    expect(problemsWith({ "default-route": ["10.0.0.1/24"] })).toEqual([
      'default-route[0]: must be an IPv4 or IPv6 address, got "10.0.0.1/24"',
    ]);
    expect(problemsWith({ "default-route": "10.0.0.1" })).toHaveLength(1);
  });

  test("parseNetworkSelections() refuses default-route on two elements, empty lists included [N-4.1.2.1.9d]", () => {
    const text =
      '[{"name": "a", "default-route": []}, {"name": "b"}, {"name": "c", "default-route": ["10.0.0.1"]}]';
    expect(() => parse(text)).toThrow(
      'network selection annotation is invalid: element 3, key "default-route": only one element may have the default route of a family: element 1 asks for that of IPv4 already, this one with ["10.0.0.1"]',
    );
    const [v4, v6] = [{ "default-route": ["10.0.0.1"] }, { "default-route": ["fd00::1"] }];
    const asking = (...elements: object[]): string =>
      JSON.stringify(elements.map((element) => ({ name: "a", ...element })));
    expect(problemsOf(asking(v4, v4))).toHaveLength(1);
    expect(problemsOf(asking(v4, { "default-route": ["10.0.0.2", "fd00::1"] }))).toHaveLength(1);
    expect(problemsOf(asking(v6, { "default-route": [] }))).toHaveLength(1);
  });

  test("parseNetworkSelections() takes default-route of IPv4 on one element and of IPv6 on another, as Multus does (multus.md §2.8)", () => {
    const text =
      '[{"name": "a", "default-route": ["10.0.0.1"]}, {"name": "b", "default-route": ["fd00::1"]}]';
    expect(parse(text).map(({ defaultRoute }) => defaultRoute)).toEqual([
      ["10.0.0.1"],
      ["fd00::1"],
    ]);
  });

  test.each<[string, unknown]>([
    ["mac", ""],
    ["interface", ""],
    ["interfaceRequest", ""],
    ["infiniband-guid", ""],
    ["deviceID", ""],
    ["ipam-claim-reference", ""],
    ["dev.plexus.resourceClaim", {}],
    ["namespace", ""],
    ["ips", []],
    ["portMappings", []],
    ["bandwidth", {}],
    ["bandwidth", { ingressRate: null }],
    ...[
      "mac",
      "interface",
      "ips",
      "portMappings",
      "bandwidth",
      "cni-args",
      "default-route",
      "deviceID",
      "namespace",
    ].map((key): [string, unknown] => [key, null]),
  ])(
    "parseNetworkSelections() takes %s = %j for absent, as Multus does (multus.md §1.5)",
    (key, value) => {
      expect(parseOne({ name: "a", [key]: value })).toEqual({
        namespace: podNamespace,
        name: "a",
        position: 1,
      });
    },
  );

  test("parseNetworkSelections() reads the claim whose device a network is to get [D-28]", () => {
    const key = "dev.plexus.resourceClaim";
    for (const resourceClaim of [{ claim: "nic" }, { claim: "nic", request: "left" }]) {
      expect(parseOne({ name: "a", [key]: resourceClaim })).toMatchObject({ resourceClaim });
    }
    for (const [value, problem] of [
      ["nic", "must be an object"],
      [{ request: "left" }, '.claim": is missing'],
      [{ claim: "../x" }, '.claim": must be a DNS-1123 label'],
      [{ claim: "nic", claims: "x" }, "claims"],
    ] as const) {
      expect(() => parse(JSON.stringify([{ name: "a", [key]: value }]))).toThrow(problem);
    }
  });

  test("parseNetworkSelections() takes interfaceRequest where interface is empty (multus.md §1.5)", () => {
    const element = { name: "a", interface: "", interfaceRequest: "old0" };
    expect(parseOne(element)?.ifName).toBe("old0");
  });
});

describe("the annotation as a whole", () => {
  test.each(["", " \n\t", "[]", " [ ] "])(
    "parseNetworkSelections(%j) is no networks",
    (annotation) => {
      expect(parse(annotation)).toEqual([]);
    },
  );

  test("parseNetworkSelections() collects all problems and names the first in its message", () => {
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

  test("parseNetworkSelections() bounds the number of networks", () => {
    const names = (count: number): string => new Array(count).fill("a").join(",");
    expect(parse(names(32))).toHaveLength(32);
    expect(() => parse(names(33))).toThrow(
      new CniError(
        "OverLimit",
        "the network selection annotation has 33 networks, more than the limit of 32",
      ),
    );
  });

  test("parseNetworkSelections() and parseDefaultNetworkSelection() bound the annotation's bytes", () => {
    const sized = (bytes: number): string => `a${" ".repeat(bytes - 3)}\u00a0`;
    expect(parse(sized(65_536))).toHaveLength(1);
    expect(() => parse(sized(65_537))).toThrow(
      "the network selection annotation has 65537 bytes, more than the limit of 65536",
    );
    expect(() =>
      parseDefaultNetworkSelection(sized(65_537), { defaultNamespace: "kube-system" }),
    ).toThrow("the default network annotation has 65537 bytes");
  });

  test("parseNetworkSelections() bounds its warnings, in number and in length", () => {
    const warnings: string[] = [];
    const keys = Object.fromEntries(
      Array.from({ length: 100 }, (_, i) => [`${"k".repeat(300)}${i}`, "v".repeat(300)]),
    );
    const options = {
      podNamespace,
      onWarning: (message: string): void => void warnings.push(message),
    };
    parseNetworkSelections(JSON.stringify([{ name: "a", ...keys }]), options);
    expect(warnings).toHaveLength(20);
    expect(Math.max(...warnings.map(({ length }) => length))).toBeLessThan(300);
  });

  test("parseNetworkSelections() survives deep nesting", () => {
    expect(() => parse("[".repeat(60_000))).toThrow(
      "nested more than 100 levels deep at line 1, column 101",
    );
    const deep = `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`;
    expect(() => parse(`[{"name": "a", "cni-args": ${deep}}]`)).toThrow(SelectionError);
  });

  test("parseNetworkSelections() survives as much garbage as it reads at all", () => {
    for (const garbage of [
      "\u0000",
      "[{",
      '"',
      "a,",
      "/@",
      "é",
      "[1,",
      "\\",
      '{"name":"a"},',
      "\ud800",
    ]) {
      const annotation = garbage.repeat(limits.annotation.max / Buffer.byteLength(garbage));
      expect(() => parse(annotation)).toThrow(expect.objectContaining({ code: 100 }));
    }
  });

  test("parseNetworkSelections() of any text gives selections or a SelectionError", () => {
    const text = fc.oneof(
      fc.string(),
      fc.json(),
      fc
        .array(
          fc.dictionary(
            fc.constantFrom(
              "name",
              "mac",
              "ips",
              "default-route",
              "bandwidth",
              "portMappings",
              "x",
            ),
            fc.jsonValue(),
          ),
        )
        .map((list) => JSON.stringify(list)),
    );
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
