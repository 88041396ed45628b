import { expect, test } from "vitest";
import { type NetConfList, parseNetConfList } from "#cni/conf/conf.ts";
import { ended, exited, FakeDelegates } from "#cni/testing/fake-delegates.ts";
import { checkExecutable, gcNetwork, statusNetwork } from "./chain.ts";

const limits = { searchPath: ["/a", "/b"], timeoutMs: 1000 };
const types = ["a", "b", "c"];

function listOf(cniVersion: string, extra: object = {}): NetConfList {
  const plugins = types.map((type) => ({ type }));
  return parseNetConfList({ cniVersion, name: "n", plugins, ...extra }, { source: "test" });
}

test.each([50, 51])("statusNetwork() stops at the error %i [R-1.1-20] [R-1.1-22]", async (code) => {
  const fake = new FakeDelegates({ b: exited(1, { code, msg: "not now" }) });
  await expect(statusNetwork(listOf("1.1.0"), limits, fake.run)).rejects.toMatchObject({
    code,
    message: 'plugin type="b" failed (status): not now',
  });
  expect(fake.types).toEqual(["a", "b"]);
});

test.each(["", "0.3.1", "0.4.0", "1.0.0"])(
  "statusNetwork() and gcNetwork() execute no plugin for CNI version %j, which lacks them",
  async (version) => {
    const fake = new FakeDelegates();
    await statusNetwork(listOf(version), limits, fake.run);
    expect(await gcNetwork(listOf(version), [], { ...limits, run: fake.run })).toEqual([]);
    expect(fake.calls).toEqual([]);
  },
);

test("gcNetwork() continues after errors and returns them all [R-1.1-31] [R-1.1-32] [R-1.1-34]", async () => {
  const fake = new FakeDelegates({
    a: exited(1, { code: 100, msg: "x" }),
    c: ended("signaled", 9),
  });
  const errors = await gcNetwork(listOf("1.1.0"), [], { ...limits, run: fake.run });
  expect(fake.types).toEqual(types);
  expect(errors.map(({ code, message }) => [code, message])).toEqual([
    [100, 'plugin type="a" failed (gc): x'],
    [
      999,
      'plugin type="c" failed (gc): netplugin failed with no error message: killed by signal 9',
    ],
  ]);
});

test("gcNetwork() executes no plugin of a list with disableGC [R-1.1-03]", async () => {
  const fake = new FakeDelegates();
  const list = listOf("1.1.0", { disableGC: true });
  expect(await gcNetwork(list, [], { ...limits, run: fake.run })).toEqual([]);
  expect(fake.calls).toEqual([]);
});

test.each([
  exited(0, { cniVersion: "1.0.0", supportedVersions: ["1.0.0"] }),
  exited(1, { code: 4, msg: "unknown CNI_COMMAND: VERSION" }),
])("checkExecutable() accepts %j [X-11]", async (outcome) => {
  await checkExecutable("a", limits, new FakeDelegates({ a: outcome }).run);
});

test.each([
  [exited(1, { code: 9, msg: "broken" }), "broken"],
  [ended("missing", 2), 'failed to find plugin "a" in path [/a /b]'],
])("checkExecutable() refuses %j [X-11]", async (outcome, message) => {
  const { run } = new FakeDelegates({ a: outcome });
  await expect(checkExecutable("a", limits, run)).rejects.toThrow(message);
});
