import { expect, test } from "vitest";
import { plexusdsListMark } from "#engine/config.ts";
import { EngineLab, network } from "#engine/testing/engine-lab.ts";

/** The plugins of the plan that is kept. */
function kept(lab: EngineLab): string[] | undefined {
  return lab.records.defaultPlan?.map(({ type }) => type);
}

test("keepDefaultPlan() writes the default network's DELs without the values that only a call has", async () => {
  const lab = new EngineLab({ config: { binDir: "/opt/bin", delegateTimeoutMs: 7000 } });
  const host = { type: "host-device", device: "eth1", ipam: { type: "host-local" } };
  const delegates = [{ cniVersion: "1.0.0", name: "n", plugins: [host, { type: "tuning" }] }];
  await lab.engine.keepDefaultPlan({ delegates });
  const common = {
    searchPath: ["/opt/bin"],
    timeoutMs: 7000,
    env: { CNI_COMMAND: "DEL", CNI_PATH: "/opt/bin" },
  };
  const stdin = JSON.stringify({ ...host, cniVersion: "1.0.0", name: "n" });
  expect(lab.records.defaultPlan?.map((call) => ({ ...call, stdin: "" }))).toEqual(
    ["tuning", "host-device", "host-local"].map((type) => ({ type, ...common, stdin: "" })),
  );
  expect(JSON.parse(lab.records.defaultPlan?.[1]?.stdin ?? "")).toEqual(JSON.parse(stdin));
});

test("keepDefaultPlan() uses the conf file's default network, or else that of the last call", async () => {
  const lab = new EngineLab();
  lab.source.addPod({ name: "web" });
  await lab.engine.keepDefaultPlan({});
  expect(kept(lab)).toBeUndefined();
  await lab.add({ pod: "default/web" });
  await lab.engine.keepDefaultPlan({});
  expect(kept(lab)).toEqual(["ptp"]);
  await lab.status({ conf: { delegates: [network("other", "bridge")] } });
  await lab.del({ conf: { delegates: [network("old", "ipvlan")] } });
  await lab.engine.keepDefaultPlan({});
  expect(kept(lab)).toEqual(["bridge"]);
  await lab.engine.keepDefaultPlan({ name: "without-default" });
  expect(kept(lab)).toEqual(["bridge"]);
  await lab.engine.keepDefaultPlan({ delegates: [network("third", "macvlan")] });
  expect(kept(lab)).toEqual(["macvlan"]);
});

test("keepDefaultPlan() prefers plexusd's own configuration and follows its changes", async () => {
  const lab = new EngineLab({ config: { delegates: [network("own", "ipvlan")] } });
  const other = { ...plexusdsListMark, delegates: [network("other", "bridge")] };
  await lab.engine.keepDefaultPlan(other);
  expect(kept(lab)).toEqual(["ipvlan"]);
  lab.config = { delegates: [network("own", "vlan", "portmap")] };
  await lab.engine.keepDefaultPlan({});
  expect(kept(lab)).toEqual(["portmap", "vlan"]);
});

test("keepDefaultPlan() keeps the plan if it cannot resolve the default network", async () => {
  const lab = new EngineLab();
  await lab.engine.keepDefaultPlan({ delegates: [network("n", "ptp")] });
  await expect(lab.engine.keepDefaultPlan({ clusterNetwork: "/none.conf" })).rejects.toThrow(
    "does not exist",
  );
  expect(kept(lab)).toEqual(["ptp"]);
});

test("keepDefaultPlan() keeps a network above the limits of an ADD, which a DEL has not", async () => {
  const lab = new EngineLab();
  const delegates = [{ ...network("n", "ptp"), filler: "x".repeat(140_000) }];
  await lab.engine.keepDefaultPlan({ delegates });
  expect(kept(lab)).toEqual(["ptp"]);
});
