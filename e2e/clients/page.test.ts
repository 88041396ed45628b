import { expect, test } from "vitest";
import { expectShown } from "../cluster/scenarios/pages/steps.ts";
import { ClientsMachine } from "./machine.ts";
import { pageSteps } from "./page.ts";

test("docs/user/without-kubernetes.md: nerdctl and cnitool attach containers to several networks, with the output that the page shows, and leave nothing", async () => {
  const { all, notRun } = await pageSteps();
  // plexusd stays in the foreground.
  expect(notRun).toEqual(["mkdir -p /etc/plexus/manifests"]);
  await using machine = await ClientsMachine.create();
  for (const step of all) expectShown(step, await machine.sh(step.text));
  const { links, "iptables rules": rules, ...remains } = await machine.state();
  expect(links).toEqual(["back0", "front0", "lab0", "lo"]);
  expect(rules?.filter((rule) => /CNI-DN|8080/.test(rule))).toEqual([]);
  expect(remains).toMatchObject({
    "address leases": [],
    "cached results": [],
    "attachment records": [],
    locks: [],
  });
});
