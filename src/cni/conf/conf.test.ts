import { expect, test } from "vitest";
import { enabledCapabilities, type NetConfList, parseNetConfList, toJson } from "./conf.ts";
import { ipamType, parsePluginConf } from "./plugin-conf.ts";

const source = "test.conflist";
const parse = (value: unknown): NetConfList => parseNetConfList(value, { source });
const base = { cniVersion: "1.0.0", name: "net", plugins: [{ type: "bridge" }] };

test("parseNetConfList() reads a list from text or an object, and keeps unknown keys [R-0.3-08] [R-1.0-01] [R-1.0-22] [R-1.0-04] [R-0.2-03]", () => {
  const conf = {
    cniVersion: "1.1.0",
    name: "some-list",
    disableCheck: true,
    vendor: { a: 1 },
    plugins: [
      { type: "host-local", subnet: "10.0.0.1/24", args: { cni: { ips: ["10.0.0.5/24"] } } },
      { type: "bridge", ipMasq: true, mtu: 1400, capabilities: { mac: true, ips: false } },
    ],
  };
  const expected = {
    name: "some-list",
    cniVersion: "1.1.0",
    disableCheck: true,
    disableGC: false,
    loadOnlyInlinedPlugins: false,
    plugins: [
      { type: "host-local", capabilities: {}, raw: conf.plugins[0] },
      { type: "bridge", capabilities: { mac: true, ips: false }, raw: conf.plugins[1] },
    ],
    raw: conf,
  };
  expect(parse(conf)).toEqual(expected);
  expect(parse(JSON.stringify(conf))).toEqual(expected);
  expect(parse(toJson(parse(conf)))).toEqual(expected);
});

test("parseNetConfList() turns a single plugin's configuration into a list [L-09] [R-0.1-07]", () => {
  const conf = {
    cniVersion: "0.1.0",
    name: "old",
    type: "ptp",
    ipMasq: true,
    ipam: { type: "host-local", routes: [{ dst: "0.0.0.0/0" }] },
    dns: { nameservers: ["10.1.0.1"], domain: "d", search: ["s"], options: ["o"] },
  };
  const list = parse(conf);
  expect(list).toMatchObject({ name: "old", cniVersion: "0.1.0", disableCheck: false });
  expect(list.plugins).toEqual([{ type: "ptp", capabilities: {}, raw: conf }]);
  expect(list.raw).toEqual({ cniVersion: "0.1.0", name: "old", plugins: [conf] });
});

test("parseNetConfList() uses the given name if the configuration has none [L-05]", () => {
  const { name: _none, ...nameless } = base;
  expect(() => parse(nameless)).toThrow(
    `invalid network configuration in ${source}: name: is missing`,
  );
  expect(parseNetConfList(nameless, { source, name: "given" })).toMatchObject({
    name: "given",
    raw: { name: "given" },
  });
  expect(parseNetConfList({ ...base, name: "" }, { source, name: "given" }).name).toBe("given");
  expect(parseNetConfList(base, { source, name: "given" }).name).toBe("net");
  expect(() => parseNetConfList(nameless, { source, name: "../x" })).toThrow('"../x"');
});

test.each([
  [true, true],
  [false, false],
  ["true", true],
  ["True", true],
  ["false", false],
  ["FALSE", false],
])("parseNetConfList() reads the flag %j [L-06] [R-0.4-32] [R-1.1-03]", (written, value) => {
  const list = parse({
    ...base,
    disableCheck: written,
    disableGC: written,
    loadOnlyInlinedPlugins: written,
  });
  expect(list).toMatchObject({
    disableCheck: value,
    disableGC: value,
    loadOnlyInlinedPlugins: value,
  });
});

test.each([
  ["{", "not valid JSON: unexpected end"],
  ["[]", "must be an object, got []"],
  ["null", "must be an object, got null"],
  ['"x"', 'must be an object, got "x"'],
])("parseNetConfList(%j) fails with code 6", (text, problem) => {
  expect(() => parse(text)).toThrow(expect.objectContaining({ code: 6 }));
  expect(() => parse(text)).toThrow(`invalid network configuration in ${source}: ${problem}`);
});

const noVersion = (version: string): string =>
  `invalid CNI version "${version}": not one to three numbers with dots between`;
const noExecutable = (type: string): string =>
  `plugins[0].type: ${JSON.stringify(type)} is not the name of an executable`;

test.each([
  [{ ...base, name: undefined }, "name: is missing"],
  [{ ...base, name: "" }, "name: is missing"],
  [{ ...base, name: 3 }, "name: must be a string, got 3"],
  [{ ...base, name: "a/b" }, 'name: invalid characters found in network name, got "a/b"'],
  [{ ...base, cniVersion: 1 }, "cniVersion: must be a string, got 1"],
  [{ ...base, cniVersion: "banana" }, `cniVersion: ${noVersion("banana")}`],
  [{ ...base, cniVersions: ["foo"] }, `cniVersions: ${noVersion("foo")}`],
  [{ ...base, cniVersions: "1.0.0" }, 'cniVersions: must be an array, got "1.0.0"'],
  [{ ...base, cniVersions: [1] }, "cniVersions[0]: must be a string, got 1"],
  [{ ...base, disableCheck: "maybe" }, 'disableCheck: must be true or false, got "maybe"'],
  [{ ...base, disableGC: 1 }, "disableGC: must be true or false, got 1"],
  [
    { ...base, loadOnlyInlinedPlugins: "x" },
    'loadOnlyInlinedPlugins: must be true or false, got "x"',
  ],
  [{ ...base, plugins: {} }, "plugins: must be an array, got {}"],
  [{ ...base, plugins: [] }, "plugins: no plugins in list"],
  [{ ...base, plugins: [null] }, "plugins[0]: must be an object, got null"],
  [{ ...base, plugins: [{ type: "a" }, {}] }, "plugins[1].type: is missing"],
  [{ ...base, plugins: [{ type: 3 }] }, "plugins[0].type: must be a string, got 3"],
  [{ ...base, plugins: [{ type: "../sh" }] }, noExecutable("../sh")],
  [{ ...base, plugins: [{ type: "a\\b" }] }, noExecutable("a\\b")],
  [{ ...base, plugins: [{ type: ".." }] }, noExecutable("..")],
  [{ ...base, plugins: [{ type: "a\n" }] }, noExecutable("a\n")],
  [{ ...base, plugins: [{ type: "a", name: 3 }] }, "plugins[0].name: must be a string, got 3"],
  [
    { ...base, plugins: [{ type: "a", cniVersion: 1 }] },
    "plugins[0].cniVersion: must be a string, got 1",
  ],
  [
    { ...base, plugins: [{ type: "a", capabilities: [] }] },
    "plugins[0].capabilities: must be an object, got []",
  ],
  [
    { ...base, plugins: [{ type: "a", capabilities: { mac: "yes" } }] },
    'plugins[0].capabilities.mac: must be true or false, got "yes"',
  ],
  [
    { ...base, plugins: [{ type: "a", ipam: "dhcp" }] },
    'plugins[0].ipam: must be an object, got "dhcp"',
  ],
  [
    { ...base, plugins: [{ type: "a", ipam: { type: 1 } }] },
    "plugins[0].ipam.type: must be a string, got 1",
  ],
  [{ ...base, plugins: [{ type: "a", dns: [] }] }, "plugins[0].dns: must be an object, got []"],
  [
    { ...base, plugins: [{ type: "a", dns: { search: [1] } }] },
    "plugins[0].dns.search[0]: must be a string, got 1",
  ],
  [
    { ...base, plugins: [{ type: "a", prevResult: 1 }] },
    "plugins[0].prevResult: must be an object, got 1",
  ],
  [
    { ...base, plugins: [{ type: "a", "cni.dev/valid-attachments": {} }] },
    "plugins[0].cni.dev/valid-attachments: must be an array, got {}",
  ],
  [{ name: "n" }, "plugins: is missing, and so is type"],
  [{ name: "n", loadOnlyInlinedPlugins: true }, "plugins: is missing, and so is type"],
  [{ name: "n", type: "" }, "plugins[0].type: is missing"],
])("parseNetConfList(%j) names the field [L-04] [L-05] [R-1.0-02] [R-1.1-06]", (conf, problem) => {
  const message = `invalid network configuration in ${source}: ${problem}`;
  expect(() => parse(conf)).toThrow(expect.objectContaining({ code: 7, message }));
});

test("parseNetConfList() names every invalid field [R-1.1-05]", () => {
  const conf = { cniVersion: "1.0.0", name: "a b", plugins: [{}, { type: "a", dns: 1 }] };
  expect(() => parse(conf)).toThrow(
    `invalid network configuration in ${source}: name: invalid characters found in network name, got "a b"; ` +
      "plugins[0].type: is missing; plugins[1].dns: must be an object, got 1",
  );
});

test("parseNetConfList() rejects a version that Plexus lacks, but not for a DEL [R-1.1-01]", () => {
  const conf = { ...base, cniVersion: "2.0.0" };
  const message = `invalid network configuration in ${source}: incompatible CNI versions`;
  expect(() => parse(conf)).toThrow(expect.objectContaining({ code: 1, message }));
  expect(parseNetConfList(conf, { source, unlimited: true }).cniVersion).toBe("2.0.0");
});

test.each([
  [{ cniVersions: ["0.3.1", "1.1.0"] }, "1.1.0"],
  [{ cniVersions: ["99.0.0"] }, "1.0.0"],
  [{}, "1.0.0"],
  [{ cniVersion: "1.2.3" }, "1.1.0"],
  [{ cniVersion: "", cniVersions: [] }, ""],
])("parseNetConfList() selects one version of %j [R-1.1-01] [L-07]", (versions, chosen) => {
  const list = parse({ ...base, ...versions });
  expect(list.cniVersion).toBe(chosen);
  expect(toJson(list)).not.toHaveProperty("cniVersions");
  expect(parse(toJson(list)).cniVersion).toBe(chosen);
});

test.each([
  [{ cniVersion: "1.0.0", cniVersions: ["0.3.1", "99.0.0"] }],
  [{ cniVersion: "", cniVersions: ["0.4.0", "1.1.0"] }],
  [{ cniVersion: "1.0.0" }],
])("parseNetConfList() keeps the choice of versions %j as written", (versions) => {
  const written = "cniVersions" in versions ? versions : undefined;
  expect(parse({ ...base, ...versions }).written).toEqual(written);
});

test.each([
  {
    CNIVersion: "1.0.0",
    NAME: "net",
    DisableGc: true,
    Plugins: [{ Type: "bridge", Capabilities: { mac: true }, IPAM: { Type: "dhcp" } }],
  },
  {
    ...{ cniVersion: "0.3.1", cniversion: "1.0.0", disableGC: false, disablegc: true },
    ...{ name: "other", Name: "net", plugins: [] },
    PLUGINS: [
      { type: "x", TYPE: "bridge", ipam: {}, IPAM: { Type: "dhcp" }, CAPABILITIES: { mac: true } },
    ],
  },
])("parseNetConfList(%j) reads keys in any case, the last of several, as in Go", (conf) => {
  const list = parse(conf);
  const raw = { type: "bridge", capabilities: { mac: true }, ipam: { Type: "dhcp" } };
  expect(list).toMatchObject({ cniVersion: "1.0.0", name: "net", disableGC: true });
  expect(list.plugins).toEqual([{ type: "bridge", capabilities: { mac: true }, raw }]);
  expect(toJson(list)).toEqual({
    cniVersion: "1.0.0",
    name: "net",
    disableGC: true,
    plugins: [raw],
  });
});

test("parseNetConfList() reads one plugin's keys in any case, and keeps others as written", () => {
  const conf = {
    CNIVersion: "0.3.1",
    Name: "old",
    Type: "ptp",
    IpMasq: true,
    DNS: { Domain: "d" },
  };
  const raw = { cniVersion: "0.3.1", name: "old", type: "ptp", IpMasq: true, dns: { Domain: "d" } };
  expect(toJson(parse(conf))).toEqual({ cniVersion: "0.3.1", name: "old", plugins: [raw] });
  const { name: _, ...nameless } = raw;
  const named = { cniVersion: "0.3.1", name: "given", plugins: [nameless] };
  expect(toJson(parseNetConfList(conf, { source, name: "given" }))).toEqual(named);
  expect(() => parse({ ...conf, DNS: { Domain: 1 } })).toThrow("plugins[0].dns.domain: must be a");
  expect(() => parse({ ...conf, IPAM: { Type: 1 } })).toThrow("plugins[0].ipam.type: must be a");
});

test.each([
  ["plugin", base, "type: is missing: a list belongs in a .conflist file"],
  ["plugin", { name: "n" }, "type: is missing"],
  [
    "list",
    { name: "n", type: "a" },
    "plugins: is missing: a single plugin belongs in a .conf file",
  ],
] as const)("parseNetConfList() rejects the other form than a %s", (form, conf, problem) => {
  expect(() => parseNetConfList(conf, { source, form })).toThrow(problem);
});

test("parsePluginConf() reads keys in any case", () => {
  const conf = parsePluginConf({ TYPE: "tuning", RuntimeConfig: {} }, { source: "x.conf" });
  expect(conf.raw).toEqual({ type: "tuning", runtimeConfig: {} });
});

test("parsePluginConf() rejects a plugin without a type", () => {
  expect(() => parsePluginConf("{}", { source: "x.conf" })).toThrow(
    "invalid plugin configuration in x.conf: type: is missing",
  );
});

test("enabledCapabilities() returns what at least one plugin enables [O-05]", () => {
  const list = parse({
    ...base,
    plugins: [
      { type: "a", capabilities: { mac: true, ips: null } },
      { type: "b", capabilities: { ips: false, portMappings: true } },
    ],
  });
  expect(enabledCapabilities(list)).toEqual(new Set(["mac", "portMappings"]));
});

test.each([
  [{ type: "bridge", ipam: { type: "host-local" } }, "host-local"],
  [{ type: "bridge", IPAM: { Type: "host-local" } }, "host-local"],
  [{ type: "bridge", ipam: {} }, undefined],
  [{ type: "bridge", ipam: { type: 3 } }, undefined],
  [{ type: "bridge", ipam: { type: "../sh" } }, undefined],
  [{ type: "bridge", ipam: "dhcp" }, undefined],
  [{ type: "bridge" }, undefined],
  [null, undefined],
])("ipamType(%j) is the name of an executable or undefined", (conf, type) => {
  expect(ipamType(conf)).toBe(type);
});
