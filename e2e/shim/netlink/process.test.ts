import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, readdirSync, readFileSync, readlinkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { waitUntil } from "../../support/wait.ts";
import { type Bench, eachBuild } from "../lab/harness.ts";
import { PlanFile } from "../lab/plan-file.ts";

const own = "/proc/self/ns/net";

eachBuild("the network namespace of a process", (bench) => {
  const started: ChildProcess[] = [];
  afterEach(() => {
    for (const child of started.splice(0)) child.kill("SIGKILL");
  });

  /** A process in its own namespace, whose name looks like the fields behind it. @returns its path */
  const process = async (): Promise<string> => {
    const program = join(bench().dir, "a) R 1 2");
    copyFileSync("/bin/sleep", program);
    const child = spawn("unshare", [
      "-n",
      "sh",
      "-c",
      'exec "$0" 600 7</proc/self/ns/net',
      program,
    ]);
    started.push(child);
    const path = `/proc/${child.pid}/ns/net`;
    await waitUntil("the process has a namespace", () =>
      readFileSync(`/proc/${child.pid}/comm`, "utf8") === "a) R 1 2\n" &&
      readlinkSync(path) !== readlinkSync(own)
        ? true
        : undefined,
    );
    return path;
  };

  const request = async (env: Record<string, string>): Promise<string | undefined> => {
    let fields: string[] = [];
    const server = await bench().engine((engine) => {
      fields = engine.request.fields.map(String);
      engine.done();
    });
    await bench().run({ env });
    server.close();
    return fields.find((field) => field.startsWith("PLEXUS_NETNS_PROCESS="));
  };

  test.each(["ADD", "DEL"])(
    "is identified in a %s by its start and its number, by all paths that lead to it",
    async (command) => {
      const path = await process();
      const stat = readFileSync(path.replace("ns/net", "stat"), "utf8");
      const start = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
      const expected = `PLEXUS_NETNS_PROCESS=${start}-${readlinkSync(path)}`;
      const [link, relative] = [join(bench().dir, "link"), join(bench().dir, "relative")];
      symlinkSync(path, link);
      symlinkSync("link", relative);
      const aliases = [link, relative, `/proc/${globalThis.process.pid}/root${path}`];
      const thread = path.replace("/ns/", `/task/${path.split("/")[2]}/ns/`);
      for (const CNI_NETNS of [path, thread, path.replace("ns/net", "fd/7"), ...aliases])
        expect(await request({ CNI_COMMAND: command, CNI_NETNS })).toBe(expected);
    },
  );

  test("is identified by the start of the process at the path of a thread that started later", async () => {
    const script = `setTimeout(() => new (require("node:worker_threads").Worker)(
      "setInterval(() => undefined, 1000)", { eval: true }).on("online", () => console.log()), 60)`;
    const child = spawn("unshare", ["-n", globalThis.process.execPath, "-e", script]);
    started.push(child);
    await once(child.stdout, "data");
    const path = `/proc/${child.pid}/ns/net`;
    const identity = await request({ CNI_COMMAND: "DEL", CNI_NETNS: path });
    const threads = readdirSync(`/proc/${child.pid}/task`).map(Number);
    const CNI_NETNS = `/proc/${child.pid}/task/${Math.max(...threads)}/ns/net`;
    expect(identity).toMatch(/=\d+-net:/);
    expect(await request({ CNI_COMMAND: "DEL", CNI_NETNS })).toBe(identity);
  });

  test("leaves as many descriptors open as that of a mount", async () => {
    const open: number[] = [];
    for (const CNI_NETNS of [await process(), bench().netns()]) {
      const server = await bench().engine((engine) => {
        open.push(readdirSync(`/proc/${call.child.pid}/fd`).length);
        engine.done();
      });
      const call = bench().start({ env: { CNI_NETNS } });
      expect(await call.ended).toMatchObject({ code: 0 });
      server.close();
    }
    expect(open[0]).toBe(open[1]);
  });

  test("is not what a mount, the shim's own namespace or no namespace is", async () => {
    for (const path of [bench().netns(), own, "/proc/4194304/ns/net", "/etc/passwd", ""])
      expect(await request({ CNI_COMMAND: "DEL", CNI_NETNS: path })).toBeUndefined();
  });

  test("is not passed by a DEL without an engine, as the process may be another container's", async () => {
    const path = await process();
    const plan = new PlanFile(bench());
    plan.write([{ env: ["CNI_COMMAND=DEL", `CNI_NETNS=${path}`] }]);
    expect(await plan.del({ CNI_NETNS: path })).toMatchObject({ code: 0 });
    expect(plan.ran).toEqual(["a DEL c1 eth0 '' conf"]);
  });

  test("is passed by the rollback of the ADD that it was given to", async () => {
    const path = await process();
    const plan = new PlanFile(bench());
    plan.write([{}]);
    await orderAndLeave(bench());
    await bench().run({ env: { CNI_NETNS: path } });
    expect(plan.ran.at(-1)).toBe(`a DEL c1 eth0 '${path}' conf`);
  });
});

async function orderAndLeave(bench: Bench): Promise<void> {
  await bench.engine(async (engine) => {
    await engine.exec({ type: "a", path: bench.bin });
    engine.socket.destroy();
  });
}
