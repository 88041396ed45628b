import { expect, test } from "vitest";
import type { EngineDeps } from "#engine/ports/engine-deps.ts";
import { begunTeardown, type RecordedAttachment } from "#engine/record/record.ts";
import { addressHolders } from "./address-holders.ts";
import type { Explanation, FindLeases, Lease } from "./explanation.ts";

/** A sandbox with a network, and its addresses; without any, no plugin has given it one. */
function record(name: string, displayName: string, ...addresses: string[]) {
  const ips = addresses.map((address) => ({ address }));
  const attachment = { displayName, cniArgs: [], ...(ips.length > 0 && { result: { ips } }) };
  return {
    ...{ containerId: `of-${name}`, pod: { namespace: "default", name }, clockMs: 0, bootId: "b" },
    attachments: [{ state: "attached", ...attachment } as unknown as RecordedAttachment],
  };
}

type Found = readonly ReturnType<typeof record>[];

const leased = (...leases: Lease[]): FindLeases => {
  return async (network) => (network === "net-a" ? leases : []);
};

function holders(
  records: Found,
  leases?: FindLeases,
  subject: string | undefined = "default/a (net1)",
): Promise<string> {
  const deps = {
    ...{ bootId: () => "after a restart", clock: () => 0, now: () => "" },
    records: { list: async () => ({ records, damaged: [] }) },
  };
  const explanation = {
    networks: [{ network: "default/ab" }, { network: "default/a", cniName: "net-a" }],
    advice: { subject },
  };
  const [given, says] = [deps as unknown as EngineDeps, explanation as unknown as Explanation];
  return addressHolders(given, says, leases);
}

const db = record("db", "default/a", "10.0.0.2/24", "fd00::2/64");

test("addressHolders() names those that have addresses of the network, by records and leases", async () => {
  const left = {
    ...record("old", "default/a", "10.0.0.3/24"),
    teardown: begunTeardown("2026-01-01T00:00:00Z"),
  };
  const others = [record("web", "default/b", "10.1.0.2/24"), record("new", "default/a")];
  const leases = leased(
    { address: "10.0.0.2", containerId: "of-db", path: "/leases/10.0.0.2" },
    { address: "10.0.0.9", containerId: "0123456789abcdef", path: "/leases/10.0.0.9" },
  );
  expect(await holders([db, left, ...others], leases)).toBe(
    " On this node, its addresses are held by unrecorded container 0123456789ab (10.0.0.9), default/db (10.0.0.2/24), default/db (fd00::2/64), leftover default/old (10.0.0.3/24). If no runtime lists an unrecorded container and no network namespace has its address, remove its file, such as /leases/10.0.0.9.",
  );
});

test("addressHolders() leaves out what is no address", async () => {
  const ips = [{ address: "10.0.0.2/24" }, { address: 7 }, "10.0.0.3/24", null];
  const { attachments, ...rest } = record("db", "default/a");
  const results = attachments.map((each) => ({ ...each, result: { ips } }) as typeof each);
  expect(await holders([{ ...rest, attachments: results }])).toBe(
    " On this node, its addresses are held by default/db (10.0.0.2/24).",
  );
});

test("addressHolders() says nothing if it finds none, and without leases what the records say", async () => {
  expect(await holders([])).toBe("");
  expect(await holders([db], undefined, "the annotation")).toBe("");
  expect(await holders([db], undefined, undefined)).not.toBe("");
  expect(await holders([db], () => Promise.reject(new Error("EACCES")))).toMatch(
    /held by default\/db \(10\.0\.0\.2\/24\), default\/db \(fd00::2\/64\)\.$/,
  );
  const never: FindLeases = () => expect.unreachable();
  expect(await holders([db], never, "default/ab")).toBe("");
});

test("addressHolders() names eight", async () => {
  const ips = Array.from({ length: 9 }, (_, i) => `10.0.0.${i}/24`);
  expect(await holders([record("db", "default/a", ...ips.slice(1))])).toMatch(
    /10\.0\.0\.8\/24\)\.$/,
  );
  const said = await holders([record("db", "default/a", ...ips)]);
  expect(said).toMatch(/10\.0\.0\.7\/24\), and 1 more\.$/);
  expect(said).not.toContain("10.0.0.8");
});
