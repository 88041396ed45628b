import { expect, test } from "vitest";
import type { EngineLab } from "#engine/testing/engine-lab.ts";
import { failed, halfway } from "#engine/testing/fake-plugins.ts";
import { hotPlugLab } from "./testing/hot-plug-lab.ts";

const again =
  "Plexus tries again with backoff, and at once when the annotation or the definition changes";

interface Scene {
  readonly title: string;
  readonly edit: readonly [from: string, to: string];
  readonly prepare?: (lab: EngineLab) => void;
  /** The warnings of two attempts: what stays the same is not said again. */
  readonly warnings: readonly RegExp[];
}

const macvlan =
  (outcome: Record<string, string>) =>
  (lab: EngineLab): void => {
    for (const [command, message] of Object.entries(outcome)) {
      const ending = failed(7, message);
      const leavesLink = command === "ADD" && "DEL" in outcome;
      lab.plugins.script(`macvlan ${command}`, leavesLink ? halfway(lab, ending) : ending);
    }
  };

test.each<Scene>([
  {
    title: "a network that can be neither plugged nor detached",
    ...{ edit: ["a", "a,b"], prepare: macvlan({ ADD: "no such VLAN", DEL: "no answer" }) },
    warnings: [
      /^FailedAddingInterface: .* default\/b \(net2\): .*no such VLAN; .* default\/b \(net2\): .*no answer; Plexus tries again.*; Plexus keeps its record and tries again with backoff$/,
      /^FailedAddingInterface: .* default\/b \(net2\): .*no answer; Plexus tries again.*; Plexus keeps its record and tries again with backoff$/,
    ],
  },
  {
    title: "definitions that do not exist, with their interfaces",
    ...{ edit: ["", "typo@x1,nope"] },
    warnings: [
      new RegExp(
        `^InterfaceAddRejected: network default/typo \\(x1\\): there is no .*; network default/nope: there is no .*; the pod keeps its networks; ${again}$`,
      ),
    ],
  },
  {
    title: "an annotation that is invalid",
    ...{ edit: ["a", "["] },
    warnings: [
      /^InterfaceAddRejected: .*; the pod keeps its networks until the annotation is corrected$/,
    ],
  },
])("events say what fails, of which interface, and what happens next: $title", async (scene) => {
  const { edit, prepare, warnings } = scene;
  const pod = await hotPlugLab(edit[0]);
  prepare?.(pod.lab);
  await pod.edit(edit[1]);
  await pod.again();
  const seen = pod.newEvents().filter((event) => /Failed|Rejected/.test(event));
  expect(seen).toEqual(warnings.map((each) => expect.stringMatching(each)));
});

test("the log names what was plugged, unplugged and failed, with the sandbox", async () => {
  const pod = await hotPlugLab("a");
  macvlan({ ADD: "no such VLAN" })(pod.lab);
  pod.lab.logger.lines.length = 0;
  await pod.edit("b,c");
  const of = (message: unknown, network: string, ifName: string) => ({
    message,
    fields: { containerId: "c1", network, ifName },
  });
  const operations = pod.lab.logger.lines.filter(({ message }) => /network/.test(message));
  expect(operations).toMatchObject([
    { level: "info", ...of("unplugged a network", "default/a", "net1") },
    {
      level: "error",
      ...of(expect.stringMatching(/^cannot add .*: .*no such VLAN/), "default/b", "net1"),
    },
    { level: "info", ...of("plugged a network", "default/c", "net2") },
  ]);
  expect(operations[1]?.fields).toMatchObject({ code: 7 });
  expect(operations[1]?.fields).not.toHaveProperty("err");
});
