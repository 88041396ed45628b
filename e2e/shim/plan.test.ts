// SPDX-License-Identifier: Apache-2.0
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { type ExecOrder, encodeFrame, encodePlan, FrameType } from "./frames.ts";
import { type Answer, type Bench, cniError, eachBuild } from "./harness.ts";

/** A plan on disk, with a record beside it, whose steps note their name and environment. */
class Plan {
  readonly file: string;
  readonly record: string;
  readonly #bench: Bench;

  constructor(bench: Bench) {
    this.#bench = bench;
    this.file = join(bench.state, "c1@eth0.teardown");
    this.record = join(bench.state, "c1@eth0.json");
    for (const name of ["a", "b", "c", "d"]) this.step(name, "");
  }

  /** Makes a plugin that notes its run and then does what the script says. */
  step(name: string, script: string): void {
    const note = `echo "${name} $CNI_COMMAND $CNI_IFNAME '$CNI_NETNS' $(cat)" >>${this.#bench.dir}/ran`;
    this.#bench.plugin(name, `${note}\n${script}`);
  }

  write(steps: Partial<ExecOrder>[], parts = {}): Buffer {
    const orders = steps.map((step) => ({
      type: "a",
      path: this.#bench.bin,
      stdin: "conf",
      env: ["CNI_COMMAND=DEL", "CNI_IFNAME=net1", "CNI_NETNS=/proc/self/ns/net"],
      ...step,
    }));
    const bytes = encodePlan({ containerId: "c1", ifName: "eth0", steps: orders, ...parts });
    this.writeRaw(bytes);
    return bytes;
  }

  writeRaw(bytes: Uint8Array): void {
    writeFileSync(this.file, bytes);
    writeFileSync(this.record, "{}");
  }

  replay(env: Record<string, string> = {}): Promise<Answer> {
    return this.#bench.run({ env: { CNI_COMMAND: "DEL", ...env } });
  }

  get ran(): string[] {
    const file = join(this.#bench.dir, "ran");
    return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  }
}

eachBuild("DEL from the plan", (bench) => {
  test("runs every step in order, removes plan and record, and leaves nothing behind", async () => {
    const plan = new Plan(bench());
    plan.write([
      { type: "c", group: "net2" },
      { type: "b", group: "net1" },
      { type: "a", group: "net1" },
    ]);
    expect(await plan.replay()).toMatchObject({ code: 0, stdout: "", stderr: "" });
    expect(plan.ran).toEqual(["c DEL net1 '' conf", "b DEL net1 '' conf", "a DEL net1 '' conf"]);
    expect(readdirSync(bench().state)).toEqual([".gc.lock"]);
  });

  test("an empty plan is done", async () => {
    const plan = new Plan(bench());
    plan.write([]);
    expect(await plan.replay()).toMatchObject({ code: 0, stdout: "" });
    expect(existsSync(plan.file)).toBe(false);
  });

  test("a plan without its record is done just the same", async () => {
    const plan = new Plan(bench());
    plan.writeRaw(plan.write([{}]));
    writeFileSync(plan.record, "");
    expect(await plan.replay()).toMatchObject({ code: 0 });
  });

  test("uses today's CNI_NETNS where it is a network namespace", async () => {
    const plan = new Plan(bench());
    plan.write([{}, { env: ["CNI_COMMAND=DEL", "CNI_IFNAME=net1"] }]);
    const netns = `/proc/${process.pid}/ns/net`;
    await plan.replay({ CNI_NETNS: netns });
    expect(plan.ran).toEqual(Array(2).fill(`a DEL net1 '${netns}' conf`));
  });

  test.each(["", "/nonexistent/netns", "/dev/null", "/etc/passwd", "/proc/self/ns/mnt"])(
    "empties CNI_NETNS %j, also for steps that do not set it",
    async (netns) => {
      const plan = new Plan(bench());
      plan.write([{}, { env: ["CNI_COMMAND=DEL", "CNI_IFNAME=net1"] }]);
      await plan.replay({ CNI_NETNS: netns });
      expect(plan.ran).toEqual(Array(2).fill("a DEL net1 '' conf"));
    },
  );

  test("after a failure: passes over the rest of that group, goes on with others, keeps the plan whole", async () => {
    const plan = new Plan(bench());
    plan.step("b", `echo '{ "code": 7,\n\t"msg": "still busy" }'; exit 1`);
    const written = plan.write([
      { type: "c", group: "net2" },
      { type: "b", group: "net1" },
      { type: "a", group: "net1" },
      { type: "d", group: "eth0" },
    ]);
    const error = cniError(await plan.replay());
    expect(error.code).toBe(102);
    expect(error.msg).toBe('could not detach: b: { "code": 7,  "msg": "still busy" } ');
    expect(plan.ran.map((line) => line[0])).toEqual(["c", "b", "d"]);
    expect(readFileSync(plan.file)).toEqual(written);
    expect(readdirSync(bench().state).sort()).toEqual([
      ".gc.lock",
      "c1@eth0.json",
      "c1@eth0.teardown",
    ]);

    plan.step("b", "");
    expect(await plan.replay()).toMatchObject({ code: 0 });
    expect(plan.ran.map((line) => line[0])).toEqual(["c", "b", "d", "c", "b", "a", "d"]);
    expect(readdirSync(bench().state)).toEqual([".gc.lock"]);
  });

  test("every kind of failure is reported in one line", async () => {
    const plan = new Plan(bench());
    plan.step("a", "echo 'on stderr' >&2; exit 2");
    plan.step("b", "exit 3");
    plan.step("c", "kill -9 $$");
    plan.step("d", "sleep 60");
    const written = plan.write([
      { type: "a", group: "1" },
      { type: "b", group: "2" },
      { type: "c", group: "3" },
      { type: "d", group: "4", timeoutMs: 200 },
      { type: "e", group: "5" },
    ]);
    const { msg } = cniError(await plan.replay());
    expect(msg).toBe(
      "could not detach: a: on stderr ; b: it failed and said nothing; c: killed by signal 9; " +
        `d: still running after 200 ms; killed; e: no plugin "e" in "${bench().bin}"`,
    );
    expect(readFileSync(plan.file)).toEqual(written);
  });

  test("the words that containerd takes for success do not get through", async () => {
    const plan = new Plan(bench());
    plan.step("a", "echo 'Not Found: link not found: No such file or directory'; exit 1");
    plan.write([{}]);
    const { msg } = cniError(await plan.replay());
    expect(msg).toMatch(/^could not detach: a: /);
    expect(msg).not.toMatch(/not found|no such file or directory/i);
  });

  test("what delegates print is made safe: invalid UTF-8, control characters, length", async () => {
    const plan = new Plan(bench());
    plan.step(
      "a",
      "printf '\\377\\300\\200\\355\\240\\200 \\303\\251 \\001\\\\\"'; yes x | head -c 10000; exit 1",
    );
    plan.write([{}]);
    const { msg } = cniError(await plan.replay());
    expect(msg).toMatch(/^could not detach: a: \ufffd{6} é {2}\\"x x x/);
    expect(msg.length).toBeLessThan(350);
  });

  test("many long failures still make one JSON document", async () => {
    const plan = new Plan(bench());
    plan.step("a", "yes éé | head -c 10000; exit 1");
    const written = plan.write(Array.from({ length: 40 }, (_, i) => ({ group: String(i) })));
    expect(cniError(await plan.replay()).code).toBe(102);
    expect(readFileSync(plan.file)).toEqual(written);
  });

  test("names that could leave the state directory are refused", async () => {
    const plan = new Plan(bench());
    plan.write([{}]);
    for (const id of ["../state/c1", "a/b", ".c1", "-c1", "c 1", "é", "x".repeat(300)])
      expect(cniError(await plan.replay({ CNI_CONTAINERID: id })).msg).toMatch(
        /^invalid characters in containerID, or more than 200$/,
      );
    for (const name of ["..", ".", "a/b", "a:b", "a b", "x".repeat(16)])
      expect(cniError(await plan.replay({ CNI_IFNAME: name }))).toMatchObject({ code: 4 });
    for (const env of [{ CNI_IFNAME: "" }, { CNI_CONTAINERID: "" }])
      expect(cniError(await plan.replay(env))).toMatchObject({ code: 4 });
    expect(plan.ran).toEqual([]);
  });

  test("another interface of the sandbox has its own plan", async () => {
    const plan = new Plan(bench());
    plan.write([{}]);
    expect(await plan.replay({ CNI_IFNAME: "eth1" })).toMatchObject({ code: 0 });
    expect(plan.ran).toEqual([]);
    expect(existsSync(plan.file)).toBe(true);
  });

  test("no state directory: nothing was ever attached", async () => {
    const env = { PLEXUS_STATE_DIR: join(bench().dir, "none") };
    expect(await new Plan(bench()).replay(env)).toMatchObject({ code: 0 });
  });
});

eachBuild("a damaged plan", (bench) => {
  const expectKept = async (plan: Plan, bytes: Uint8Array, why: string): Promise<void> => {
    plan.writeRaw(bytes);
    const error = cniError(await plan.replay());
    expect(error.code).toBe(6);
    expect(error.msg).toBe(
      `could not detach: teardown plan ${plan.file} is damaged: ${why}; it was kept: ` +
        "start plexusd to detach from the record, or detach by hand",
    );
    expect(plan.ran).toEqual([]);
    expect(readFileSync(plan.file)).toEqual(Buffer.from(bytes));
  };

  test("cut anywhere: nothing is run, the plan is kept", async () => {
    const plan = new Plan(bench());
    const bytes = plan.write([{}, { type: "b" }]);
    const head = 5 + 6 + 7 + 9;
    for (let length = 0; length < bytes.length; length += 7) {
      const why =
        length < head
          ? "it is no plan of this version for this attachment"
          : "it is cut short or altered";
      await expectKept(plan, bytes.subarray(0, length), why);
    }
  });

  test("a flipped bit anywhere: nothing is run, the plan is kept", async () => {
    const plan = new Plan(bench());
    const bytes = plan.write([{}]);
    for (let at = 0; at < bytes.length; at += 5) {
      const flipped = Buffer.from(bytes);
      flipped[at]! ^= 1;
      plan.writeRaw(flipped);
      expect(cniError(await plan.replay()).code).toBe(6);
      expect(plan.ran).toEqual([]);
    }
  });

  test.each([
    ["something after its end", "it is cut short or altered"],
    ["another container", "it is no plan of this version for this attachment"],
    ["another interface", "it is no plan of this version for this attachment"],
    ["another version", "it is no plan of this version for this attachment"],
    ["a wrong count", "it is cut short or altered"],
    ["a malformed step", "it is cut short or altered"],
    ["a netlink step", "it is cut short or altered"],
    ["no plan frame", "it is no plan of this version for this attachment"],
  ])("%s", async (defect, why) => {
    const plan = new Plan(bench());
    const good = plan.write([{}]);
    const body = good.subarray(
      0,
      good.length - encodeFrame(FrameType.planEnd, [1, "01234567"]).length,
    );
    const sum = (bytes: Buffer): string => encodePlanSum(bytes);
    const odd = (frame: Buffer): Buffer => {
      const bytes = Buffer.concat([body, frame]);
      return Buffer.concat([bytes, encodeFrame(FrameType.planEnd, [2, sum(bytes)])]);
    };
    const plans: Record<string, () => Buffer> = {
      "something after its end": () => Buffer.concat([good, Buffer.of(0)]),
      "another container": () => plan.write([{}], { containerId: "c2" }),
      "another interface": () => plan.write([{}], { ifName: "eth1" }),
      "another version": () => plan.write([{}], { version: "2" }),
      "a wrong count": () => Buffer.concat([body, encodeFrame(FrameType.planEnd, [2, sum(body)])]),
      "a malformed step": () => odd(encodeFrame(FrameType.exec, ["g", "a", "/bin"])),
      "a netlink step": () => odd(encodeFrame(FrameType.netlink, ["", ""])),
      "no plan frame": () => good.subarray(27),
    };
    await expectKept(plan, plans[defect]!(), why);
  });

  test("that cannot be read is an error", async () => {
    const plan = new Plan(bench());
    mkdirSync(plan.file);
    const error = cniError(await plan.replay());
    expect(error).toMatchObject({
      code: 5,
      msg: `could not detach: cannot read ${plan.file}: Is a directory`,
    });
    chmodSync(plan.file, 0o755);
  });
});

function encodePlanSum(bytes: Buffer): string {
  return crc32(bytes).toString(16).padStart(8, "0");
}
