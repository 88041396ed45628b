import { describe, expect, test, vi } from "vitest";
import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import { CniError } from "#cni/error.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { type NetworkAttachmentDefinition, nadConf, parseNad } from "./nad.ts";

const object = {
  apiVersion: "k8s.cni.cncf.io/v1",
  kind: "NetworkAttachmentDefinition",
  metadata: { name: "net-a", namespace: "ns", annotations: { a: "b" }, uid: "1" },
  spec: { config: '{"cniVersion": "1.0.0", "type": "bridge"}' },
};

const api = { isManifest: false };
const manifest = { isManifest: true };

describe("parseNad()", () => {
  test("returns namespace, name, annotations and configuration", () => {
    expect(parseNad(object, api)).toEqual({
      namespace: "ns",
      name: "net-a",
      annotations: { a: "b" },
      config: '{"cniVersion": "1.0.0", "type": "bridge"}',
    });
  });

  test.each([[undefined], [null], [{}], [{ config: null }]])(
    "accepts spec %j, which has no configuration [N-3.2a]",
    (spec) => {
      expect(parseNad({ ...object, spec }, api)).not.toHaveProperty("config");
    },
  );

  test("accepts list items, which have no apiVersion and kind", () => {
    const item = { metadata: { name: "a.b-c", namespace: "ns", managedFields: [] }, status: {} };
    expect(parseNad(item, api)).toEqual({ namespace: "ns", name: "a.b-c", annotations: {} });
    const { namespace: _none, ...metadata } = item.metadata;
    expect(() => parseNad({ metadata }, api)).toThrow("metadata.namespace: is missing");
  });

  test("accepts a manifest without a namespace, and rejects an invalid one", () => {
    const { apiVersion, kind } = object;
    const bare = { apiVersion, kind, metadata: { name: "a" }, spec: { config: "{}" } };
    expect(parseNad(bare, manifest)).toEqual({
      namespace: "default",
      name: "a",
      annotations: {},
      config: "{}",
    });
    expect(parseNad(object, manifest).namespace).toBe("ns");
    expect(() => parseNad({ apiVersion, kind }, manifest)).toThrow("metadata: is missing");
    expect(() => parseNad({ ...object, config: "", spec: { conf: "" } }, manifest)).toThrow(
      'NetworkAttachmentDefinition "ns/net-a": config: unknown key; spec.conf: unknown key',
    );
    expect(() => parseNad({ kind, metadata: { name: "a" } }, manifest)).toThrow(
      'NetworkAttachmentDefinition "a": apiVersion: is missing',
    );
  });

  test("reports every problem with its path [N-3.3a]", () => {
    const wrong = {
      apiVersion: "k8s.cni.cncf.io/v2",
      kind: "Pod",
      metadata: { name: "../a", namespace: "a.b", annotations: { x: 1 } },
      spec: { config: {} },
    };
    expect(() => parseNad(wrong, api)).toThrow(
      [
        'NetworkAttachmentDefinition "a.b/../a": apiVersion: must be "k8s.cni.cncf.io/v1", got "k8s.cni.cncf.io/v2"',
        'kind: must be "NetworkAttachmentDefinition", got "Pod"',
        "spec.config: must be a string, got {}",
        "metadata.namespace: must be a DNS-1123 label (a-z, 0-9 and '-'), got \"a.b\"",
        "metadata.name: must be a DNS-1123 subdomain (a-z, 0-9, '-' and '.'), got \"../a\"",
        'metadata.annotations["x"]: must be a string, got 1',
      ].join("; "),
    );
  });

  test.each([
    [null, "must be an object, got null"],
    [{}, "metadata: is missing"],
    [{ ...object, metadata: { namespace: "ns" } }, "metadata.name: is missing"],
    [
      { ...object, metadata: { name: 1, namespace: "ns" } },
      "metadata.name: must be a string, got 1",
    ],
    [{ ...object, spec: [] }, "spec: must be an object, got []"],
    [
      { ...object, metadata: { ...object.metadata, annotations: [] } },
      "metadata.annotations: must be an object, got []",
    ],
  ])("refuses %j", (value, message) => {
    expect(() => parseNad(value, api)).toThrow(message);
    expect(() => parseNad(value, api)).toThrow(expect.objectContaining({ code: 7 }));
  });
});

const nad = (config?: string): NetworkAttachmentDefinition => ({
  namespace: "ns",
  name: "net-a",
  annotations: {},
  ...omitUndefined({ config }),
});
const notCalled = (): Promise<NetConfList> => Promise.reject(new Error("not to be called"));

describe("nadConf()", () => {
  test.each([
    ['{"cniVersion": "1.0.0", "type": "awesome-plugin"}', "net-a", ["awesome-plugin"]],
    ['{"cniVersion": "1.0.0", "plugins": [{"type": "a"}]}', "net-a", ["a"]],
    ['{"cniVersion": "1.0.0", "name": "", "plugins": [{"type": "a"}]}', "net-a", ["a"]],
    ['{"name": "other", "plugins": [{"type": "a"}, {"type": "b"}]}', "other", ["a", "b"]],
  ])(
    "uses spec.config %s, with the object's name if it has none [N-3.4.1a] [N-3.4.2] [N-3.4.3]",
    async (config, name, types) => {
      const list = await nadConf(nad(config), notCalled);
      expect(list).toMatchObject({ name, raw: { name } });
      expect(list.plugins.map(({ type }) => type)).toEqual(types);
    },
  );

  test.each([[undefined], [""], [" \n"]])(
    "loads the network by the object's name from disk if config is %j [N-3.4.1b] [N-3.2a]",
    async (config) => {
      const onDisk = parseNetConfList(
        { name: "net-a", type: "x", cniVersion: "1.0.0" },
        { source: "file" },
      );
      const loadByName = vi.fn(() => Promise.resolve(onDisk));
      expect(await nadConf(nad(config), loadByName)).toBe(onDisk);
      expect(loadByName).toHaveBeenCalledWith("net-a");
    },
  );

  test("fails when there is nothing on disk either [N-3.4.1d]", async () => {
    const loadByName = (): Promise<NetConfList> =>
      Promise.reject(
        new CniError("InvalidNetworkConfig", "no net configuration", { details: "d" }),
      );
    await expect(nadConf(nad(), loadByName)).rejects.toMatchObject({
      code: 7,
      message: 'NetworkAttachmentDefinition "ns/net-a": no net configuration',
      details: "d",
    });
  });

  test("reports line and column where spec.config is not valid JSON", async () => {
    await expect(nadConf(nad('{\n  "type": "bridge",\n}'), notCalled)).rejects.toMatchObject({
      code: 7,
      message:
        'NetworkAttachmentDefinition "ns/net-a": spec.config: not valid JSON: unexpected "}", expected a key in double quotes at line 3, column 1',
    });
    await expect(nadConf(nad("[".repeat(100_000)), notCalled)).rejects.toThrow(
      "nested more than 100 levels",
    );
  });

  test("names the object and the invalid field of spec.config", async () => {
    const config = '{"cniVersion": "1.0.0", "plugins": [{"type": "../sh"}]}';
    await expect(nadConf(nad(config), notCalled)).rejects.toThrow(
      /^NetworkAttachmentDefinition "ns\/net-a": .*spec\.config.*plugins\[0\]\.type/,
    );
  });

  test("passes on errors that are not CNI errors", async () => {
    await expect(nadConf(nad(), notCalled)).rejects.toThrow(new Error("not to be called"));
  });
});

test("nadConf() parses a definition's config once", async () => {
  const definition = nad('{"cniVersion":"1.0.0","name":"n","type":"bridge"}');
  expect(await nadConf(definition, notCalled)).toBe(await nadConf(definition, notCalled));
});
