import { expect, test, vi } from "vitest";
import { CniError } from "#cni/error.ts";
import type { JsonObject } from "#lib/json.ts";
import { ApiClusterRanges } from "./cluster-ranges.ts";
import type { LiveGetRequest, LiveGetter } from "./live-get.ts";

const services = { items: [{ spec: { cidrs: ["10.96.0.0/12", "fd00::/108"] } }, { spec: {} }] };
const addresses = [
  { type: "Hostname", address: "n1" },
  { type: "InternalIP", address: "192.0.2.7" },
  { type: "InternalIP", address: "fd01::7" },
  { type: "ExternalIP", address: "198.51.100.1" },
];
const known = {
  services: ["10.96.0.0/12", "fd00::/108"],
  node: ["192.0.2.7/32", "fd01::7/128"],
};

function ranges(answer: (path: string) => JsonObject | undefined, nodeName?: string) {
  const asked: string[] = [];
  const get = async ({ path }: LiveGetRequest) => {
    asked.push(path);
    return answer(path);
  };
  return { asked, it: new ApiClusterRanges({ get } as unknown as LiveGetter, nodeName) };
}

const full = (path: string): JsonObject =>
  path.endsWith("/servicecidrs") ? services : { status: { addresses } };

test("ranges of Services and the node's addresses are read once a minute", async () => {
  vi.useFakeTimers();
  const { it, asked } = ranges(full, "n1");
  expect(await it.get(undefined)).toEqual(known);
  await it.get(undefined);
  expect(asked).toEqual(["/apis/networking.k8s.io/v1/servicecidrs", "/api/v1/nodes/n1"]);
  vi.advanceTimersByTime(60_000);
  await it.get(undefined);
  expect(asked).toHaveLength(4);
  vi.useRealTimers();
});

test("while the API server does not answer, the last ranges count, and it is asked once a minute", async () => {
  vi.useFakeTimers();
  let isAway = true;
  const { it, asked } = ranges((path) => {
    if (isAway) throw new CniError("ApiUnavailable", "no answer");
    return full(path);
  }, "n1");
  await expect(it.get(undefined)).rejects.toThrow("no answer");
  isAway = false;
  expect(await it.get(undefined)).toEqual(known);
  isAway = true;
  vi.advanceTimersByTime(60_000);
  expect(await it.get(undefined)).toEqual(known);
  const { length } = asked;
  expect(await it.get(undefined)).toEqual(known);
  expect(asked).toHaveLength(length);
  vi.useRealTimers();
});

test("an API server before 1.33 has no ServiceCIDRs, and a process without a node no addresses", async () => {
  expect(await ranges(() => undefined).it.get(undefined)).toEqual({ node: [] });
});
