import fc from "fast-check";
import { CniError } from "#cni/error.ts";
import { json } from "#cni/testing/arbitrary.ts";
import { parseDefaultNetworkSelection, parseNetworkSelections } from "#npwg/selection/selection.ts";
import { jsonTokens, must, refusing, type Target } from "../target.ts";

const name = fc.stringMatching(/^[a-z0-9.-]{1,12}$/);
const address = fc.oneof(fc.ipV4(), fc.ipV6(), fc.constant("10.0.0.1/24"), fc.string());
const mac = fc.constantFrom("02:00:00:00:00:01", "0200.0000.0001", "02-00-00-00-00-01", "zz");

const element = fc.record(
  {
    name,
    namespace: name,
    ips: fc.array(address),
    mac,
    interface: fc.string({ maxLength: 20 }),
    "cni-args": fc.dictionary(fc.string(), json),
    portMappings: fc.array(
      fc.record(
        { hostPort: fc.nat(70_000), containerPort: fc.nat(70_000), protocol: fc.string() },
        { requiredKeys: [] },
      ),
    ),
    bandwidth: fc.dictionary(fc.constantFrom("ingressRate", "egressBurst"), fc.integer()),
    "default-route": fc.array(address),
    "infiniband-guid": fc.string(),
    deviceID: fc.string(),
    Mac: mac,
  },
  { requiredKeys: ["name"] },
);

const item = fc.tuple(name, fc.option(name), fc.option(name)).map(([namespace, net, ifName]) => {
  const reference = net === null ? namespace : `${namespace}/${net}`;
  return ifName === null ? reference : `${reference}@${ifName}`;
});

const isRefusal = (error: unknown): boolean => error instanceof CniError && error.code === 100;

/** The annotations of a pod, in both formats. */
export const annotation: Target = {
  maxLength: 66_000,
  inputs: fc.oneof(
    fc.array(element, { maxLength: 4 }).map((list) => JSON.stringify(list)),
    fc.array(item, { maxLength: 6 }).map((items) => items.join(",")),
  ),
  tokens: [...jsonTokens, "/", "@", ",", "a,", "\u0085", "\ufeff", '{"name":"a"},'],
  read(input) {
    const options = { podNamespace: "default", onWarning: checkWarning };
    const selections = refusing(() => parseNetworkSelections(input, options), isRefusal);
    for (const selection of selections ?? [])
      must(selection.name !== "", "a network without a name");
    const own = { defaultNamespace: "kube-system" };
    refusing(() => parseDefaultNetworkSelection(input, own), isRefusal);
  },
};

function checkWarning(message: string): void {
  must(message.length < 500, `a warning of ${message.length} characters`);
}
