import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
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

test("rewordedForDel() returns other errors themselves", () => {
  for (const details of [undefined, "busy"]) {
    const error = new CniError(5, "failed", { details });
    expect(rewordedForDel(error)).toBe(error);
  }
});
