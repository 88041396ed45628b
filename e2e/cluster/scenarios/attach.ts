import { describe, expect, test } from "vitest";
import { nad } from "../../support/node/manifests.ts";
import { elsewhere, home, networks } from "./target/objects.ts";
import type { Scene } from "./target/scene.ts";
import { eventually, nodeAddress } from "./target/target.ts";

const red = `${home}/red`;
const blue = `${home}/blue`;

/** The kinds of host state that a pod with networks and a port mapping creates. */
const kindsOfPod = [
  "attachment records",
  "address leases",
  "netns",
  "links",
  "port mappings",
] as const;

/** Checks what a pod gets: inside the pod, in the API and on the node. */
export function attachScenarios(scene: () => Scene): void {
  describe("a pod", () => {
    test("without an annotation gets only the primary network", async () => {
      const pod = await scene().startPod("plain");
      const interfaces = await scene().interfaces("plain");
      expect(Object.keys(interfaces)).toEqual(["lo", "eth0"]);
      expect(interfaces.eth0).toContain(`${pod.status.podIP}/`);
      expect(await scene().networkStatus("plain")).toEqual([
        expect.objectContaining({ default: true, interface: "eth0", ips: [pod.status.podIP] }),
      ]);
      expect((await scene().waitForEvent("plain", "AddedInterface")).message).toContain("Add eth0");
      expect((await scene().added("attachment records")).length).toBe(1);
      expect((await scene().added("netns")).length).toBe(1);
    });

    test("gets two requested networks, and reaches other pods and the gateway over them", async () => {
      const asked = [{ name: "red" }, { name: "blue", interface: "lan0" }];
      await scene().startPod("one", { networks: asked });
      const interfaces = await scene().interfaces("one");
      expect(Object.keys(interfaces)).toEqual(["lo", "eth0", "net1", "lan0"]);
      expect(interfaces).toMatchObject({
        net1: expect.stringMatching(/^10\.161\.0\.\d+\/24$/),
        lan0: expect.stringMatching(/^10\.162\.0\.\d+\/24$/),
      });
      const address = (link: string): string | undefined => interfaces[link]?.replace("/24", "");
      expect(await scene().networkStatus("one")).toEqual([
        expect.objectContaining({ default: true, interface: "eth0" }),
        expect.objectContaining({ name: red, interface: "net1", ips: [address("net1")] }),
        expect.objectContaining({ name: blue, interface: "lan0", ips: [address("lan0")] }),
      ]);
      const routes = await scene().exec("one", "ip", "route");
      expect(routes).toMatch(/^default via \S+ dev eth0/m);
      expect(routes).toContain("10.161.0.0/24 dev net1");
      const leases = await scene().added("address leases");
      expect(leases).toContain(`./red/${address("net1")}`);
      expect(leases).toContain(`./blue/${address("lan0")}`);
      const events = (await scene().events("one")).filter(
        (each) => each.reason === "AddedInterface",
      );
      expect(events.map((each) => each.message)).toEqual([
        expect.stringContaining(`, net1 [${interfaces.net1}] from ${red}, `),
      ]);

      await scene().startPod("other", { networks: "blue,red" });
      const theirs = await scene().interfaces("other");
      for (const target of ["10.161.0.1", theirs.net2, theirs.net1, theirs.eth0]) {
        const [plain = ""] = target?.split("/") ?? [];
        await scene().exec("one", "ping", "-c1", "-W5", plain);
      }
    });

    test("gets a network of another namespace, and the IP and MAC address that it requests", async () => {
      const mac = "02:00:00:00:a4:07";
      const green = { name: "green", namespace: elsewhere };
      const fixed = { name: "fixed", ips: ["10.164.0.7/24"], mac };
      await scene().startPod("particular", { networks: [green, fixed] });
      expect((await scene().networkStatus("particular")).slice(1)).toMatchObject([
        { name: `${elsewhere}/green`, ips: [expect.stringMatching(/^10\.163\./)] },
        { ips: ["10.164.0.7"], mac },
      ]);
      expect(await scene().interfaces("particular")).toMatchObject({
        net1: expect.stringMatching(/^10\.163\.0\.\d+\/24$/),
        net2: "10.164.0.7/24",
      });
      expect(await scene().exec("particular", "ip", "link", "show", "net2")).toContain(mac);
    });

    test("waits until its missing NetworkAttachmentDefinition is created, and then starts", async () => {
      await scene().createPod("early", { networks: "late" });
      const event = await scene().waitForEvent("early", "NoNetworkFound");
      expect(event).toMatchObject({ type: "Warning", message: expect.stringContaining("late") });
      const { phase, containerStatuses } = (await scene().pod("early")).status;
      expect(phase).toBe("Pending");
      expect(containerStatuses?.[0]?.state?.waiting?.reason).toBe("ContainerCreating");
      expect(await scene().added("attachment records")).toEqual([]);
      await scene().target.apply(nad("late", networks.late, { namespace: home }));
      await scene().waitForPod("early");
      const [, late] = await scene().networkStatus("early");
      expect(late).toMatchObject({ name: `${home}/late`, interface: "net1" });
      await scene().kubectl("delete", "network-attachment-definition", "late");
    });

    test("with an invalid annotation starts, with the error in its network-status and an event", async () => {
      await scene().startPod("confused", { networks: "red@@net1" });
      expect(Object.keys(await scene().interfaces("confused"))).toEqual(["lo", "eth0"]);
      expect(await scene().networkStatus("confused")).toEqual([
        expect.objectContaining({
          "plexus.dev/annotation-error": expect.stringContaining("red@@net1"),
        }),
      ]);
      const event = await scene().waitForEvent("confused", "InvalidAnnotation");
      expect(event).toMatchObject({
        type: "Warning",
        message: expect.stringContaining("red@@net1"),
      });
    });

    test("gets the host port that it requests, and leaves nothing when it is deleted", async () => {
      const ports = [{ containerPort: 8080, hostPort: 18081 }];
      const serve = "echo here >/tmp/index.html; exec httpd -f -p 8080 -h /tmp";
      const container = { ports, command: ["sh", "-c", serve] };
      await scene().startPod("brief", { networks: "red,blue", container });
      await scene().startPod("client");
      const url = `http://${await nodeAddress(scene().target)}:18081`;
      await eventually("the pod answers on its node's port", async () => {
        return (await scene().exec("client", "wget", "-qO-", "-T5", url)).includes("here");
      });
      for (const kind of kindsOfPod) {
        expect(await scene().added(kind), kind).not.toEqual([]);
      }
      const mappings = await scene().added("port mappings");
      expect(mappings.join("\n")).toContain("18081");
      await scene().deletePods("brief", "client");
      await scene().waitForNothingLeft();
    });
  });
}
