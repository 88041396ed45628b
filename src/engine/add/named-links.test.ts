import { test } from "vitest";
import { EngineLab, expectError, network } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import type { JsonObject } from "#lib/json.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";

const node = "/proc/self/ns/net";
const similar = "; did you mean br-trunk?";

test.each<[keys: JsonObject, says: string]>([
  [{ master: "br-trunc" }, `names master "br-trunc"${similar})`],
  [{ bridge: "trunk-b" }, 'names bridge "trunk-b")'],
  [{ master: "storages" }, 'names master "storages"; did you mean storage?)'],
  [{ master: "br-trunk" }, 'names master "br-trunk")'],
  [{ master: "br-trunc", linkInContainer: true }, 'names master "br-trunc" in the pod)'],
  [{ links: [{ name: "br-trunc" }] }, `names link "br-trunc"${similar})`],
  [{ links: [{ name: "br-trunc" }], linksInContainer: true }, 'link "br-trunc" in the pod)'],
])("the error of an ADD names what links of the node may be meant: %j", async (keys, says) => {
  const lab = new EngineLab();
  lab.kernel.addNamespace(node);
  lab.kernel.addLink(node, "br-trunk");
  lab.kernel.setAltNames(node, "br-trunk", ["storage"]);
  expectError(await failingAdd(lab, keys), 999, says);
});

test("the error of an ADD names eight links at most, so that a definition with more delays no pod", async () => {
  const links = Array.from({ length: 5000 }, (_, i) => ({ name: `x${i}` }));
  expectError(await failingAdd(new EngineLab(), { links }), 999, 'link "x6", link "x7")');
});

test("the error of an ADD stays when the links of the node cannot be listed", async () => {
  expectError(await failingAdd(new EngineLab(), { master: "eth9" }), 999, 'master "eth9")');
});

async function failingAdd(lab: EngineLab, keys: JsonObject) {
  lab.plugins.script("macvlan ADD", failed(999, "Link not found"));
  const plugins = [{ type: "macvlan", ...keys }];
  lab.source.addNad("default/net-a", { ...network("net-a"), plugins });
  lab.source.addPod({ name: "web", annotations: { [networksAnnotation]: "net-a" } });
  return lab.add({ pod: "default/web" });
}
