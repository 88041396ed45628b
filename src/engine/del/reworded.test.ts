import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { network } from "#engine/testing/engine-lab.ts";
import { failed } from "#engine/testing/fake-plugins.ts";
import { attachedTo } from "#engine/testing/pod-lab.ts";
import { rewordedForDel } from "./reworded.ts";

test("rewordedForDel() takes the words on which containerd forgets a pod out of message and details", () => {
  const error = new CniError(5, "plugin not found", { details: "No such file or directory" });
  const reworded = rewordedForDel(error);
  expect(reworded).toMatchObject({ code: 5, details: "file is absent", cause: error });
  expect(reworded.message).toBe("plugin absent");
  const inDetails = new CniError("PluginMissing", "failed", { details: "not  found" });
  expect(rewordedForDel(inDetails)).toMatchObject({ reason: "PluginMissing", details: "absent" });
  const inMessage = rewordedForDel(new CniError(5, "not found", { details: "busy" }));
  expect(inMessage).toMatchObject({ details: "busy" });
  expect(inMessage.message).toBe("absent");
});

const socket = "dial unix /run/cni/dhcp.sock: connect: ";

test.each([
  ["Link not found", "Link absent"],
  ["Not Found: x not\nfound", "absent: x absent"],
  [`${socket}no such file or directory`, `${socket}file is absent`],
  ["chain X not found in iptables table nat", "chain X absent in iptables table nat"],
])("a DEL answers %j without such words", async (msg, reworded) => {
  const lab = await attachedTo(network("default-net", "ptp"));
  lab.plugins.script("ptp DEL", failed(7, msg));
  expect((await lab.del()).json.msg).toContain(`failed (delete): ${reworded}`);
});

test("rewordedForDel() returns other errors themselves", () => {
  for (const details of [undefined, "busy"]) {
    const error = new CniError(5, "failed", { details });
    expect(rewordedForDel(error)).toBe(error);
  }
});
