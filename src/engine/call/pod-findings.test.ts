import { expect, test } from "vitest";
import type { Condition } from "#lib/condition.ts";
import { PodFindings } from "./pod-findings.ts";

const pod = { namespace: "default", name: "web", uid: "u1" };
const lost = (message: string): Condition => ({ reason: "InterfaceLost", message });

function lab() {
  const events: string[] = [];
  const findings = new PodFindings({
    record: ({ name }, { reason, message }) => events.push(`${name} ${reason}: ${message}`),
  });
  return { findings, events };
}

test("a hundred bad elements are one event, again only when the matter changes or comes back", () => {
  const { findings, events } = lab();
  const bad = Array.from({ length: 100 }, (_, n) => lost(`net${n}`));
  for (const seconds of [5, 4])
    findings.state(
      pod,
      "interfaces",
      bad.map((each) => ({ ...each, next: `in ${seconds} s` })),
    );
  expect(events).toHaveLength(1);
  expect(events[0]).toMatch(/net98; net99; in 5 s$/);
  findings.state(pod, "interfaces", [lost("net1")]);
  findings.state(pod, "interfaces", []);
  findings.state(pod, "interfaces", [lost("net1")]);
  expect(events.slice(1)).toEqual(Array(2).fill("web InterfaceLost: net1"));
});

test("an event has the worst reason, and each step once, also if a message has it", () => {
  const { findings, events } = lab();
  const step = "delete the pod";
  const warning: Condition = { reason: "AnnotationChanged", message: "edited", step };
  findings.state(pod, "networks", [warning, { ...lost("net1 is lost"), step }]);
  expect(events).toEqual(["web InterfaceLost: net1 is lost; edited; delete the pod"]);
});

test("what needs no event is stated, and what an event has said is not said again after it", () => {
  const { findings, events } = lab();
  findings.state(pod, "networks", [lost("net1")]);
  findings.state(pod, "networks", [{ ...lost("no answer"), isQuiet: true }]);
  expect(findings.of(pod).map(({ message }) => message)).toEqual(["no answer"]);
  findings.state(pod, "networks", [lost("net1")]);
  expect(events).toEqual(["web InterfaceLost: net1"]);
});

test("parts state beside each other; what is missing from a statement has ended, and what is of a pod that has gone", () => {
  const { findings } = lab();
  findings.state(pod, "networks", [{ reason: "NotManaged", message: "b" }]);
  findings.state(pod, "interfaces", [lost("a"), lost("c")]);
  findings.state({ ...pod, name: "db", uid: "u2" }, "interfaces", [lost("d")]);
  expect(findings.of(pod).map(({ message }) => message)).toEqual(["b", "a", "c"]);
  expect(findings.count("InterfaceLost")).toBe(3);
  findings.state(pod, "interfaces", [lost("c")]);
  expect(findings.count("InterfaceLost")).toBe(2);
  findings.keepOnly([pod]);
  expect(findings.all().map(({ condition: { message } }) => message)).toEqual(["b", "c"]);
});
