import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { waitUntil } from "../support/wait.ts";
import { type Bench, type ExecResult, eachBuild } from "./lab/harness.ts";

/** Runs one call whose engine orders one plugin, which prints the variables that it gets. */
function carry(bench: Bench, call: Record<string, string>, env: string[]): Promise<ExecResult> {
  bench.plugin("p", 'echo "ran $CNI_COMMAND $CNI_CONTAINERID $CNI_NETNS"');
  return bench.order({ type: "p", env }, call);
}

const own = "/proc/self/ns/net";

eachBuild("the rules for orders", (bench) => {
  const commands = ["ADD", "CHECK", "DEL", "GC", "STATUS", "VERSION"];
  const allowed: Record<string, string[]> = {
    ADD: ["ADD", "CHECK", "DEL", "VERSION"],
    CHECK: ["ADD", "CHECK", "DEL", "VERSION"],
    DEL: ["DEL", "VERSION"],
    GC: ["DEL", "GC", "VERSION"],
    STATUS: ["DEL", "STATUS", "VERSION"],
  };

  test.each(Object.keys(allowed))("%s runs only allowed commands [S-102]", async (CNI_COMMAND) => {
    for (const command of [...commands, "", "add", "DEL GC", "ANYTHING"]) {
      const result = await carry(bench(), { CNI_COMMAND }, [`CNI_COMMAND=${command}`]);
      if (allowed[CNI_COMMAND]!.includes(command))
        expect(result).toMatchObject({ outcome: "exited", stdout: `ran ${command} c1 \n` });
      else
        expect(result).toMatchObject({
          outcome: "refused",
          stdout: "",
          message: `CNI_COMMAND=${command} cannot be part of ${CNI_COMMAND}`,
        });
    }
  });

  test.each([
    ["ADD", "ADD", false],
    ["ADD", "DEL", false],
    ["ADD", "VERSION", true],
    ["CHECK", "CHECK", false],
    ["CHECK", "DEL", false],
    ["DEL", "DEL", true],
    ["DEL", "VERSION", true],
    ["GC", "DEL", true],
    ["GC", "GC", false],
    ["STATUS", "DEL", true],
    ["STATUS", "STATUS", false],
  ])("%s may run %s of another container: %s [S-102]", async (CNI_COMMAND, command, isAllowed) => {
    const env = [`CNI_COMMAND=${command}`, "CNI_CONTAINERID=c2"];
    const result = await carry(bench(), { CNI_COMMAND }, env);
    if (isAllowed) expect(result.stdout).toBe(`ran ${command} c2 \n`);
    else
      expect(result).toMatchObject({
        outcome: "refused",
        message: "CNI_CONTAINERID=c2 is not the container of this call",
      });
  });

  test.each(["ADD", "CHECK", "DEL"])(
    "%s passes plugins the call's network namespace or none [S-103]",
    async (CNI_COMMAND) => {
      const [mine, other] = [bench().netns(), bench().netns()];
      const call = { CNI_COMMAND, CNI_NETNS: mine };
      const order = (netns: string) => carry(bench(), call, [`CNI_NETNS=${netns}`]);
      for (const netns of [mine, ""])
        expect((await order(netns)).stdout).toBe(`ran ${CNI_COMMAND} c1 ${netns}\n`);
      for (const netns of [other, own, `/proc/${process.pid}/ns/net`, "/nonexistent", `${mine}/`])
        expect(await order(netns)).toMatchObject({
          outcome: "refused",
          stdout: "",
          message: `CNI_NETNS=${netns} is not the network namespace of this call, or is the runtime's own`,
        });
      expect((await carry(bench(), call, [])).stdout).toBe(`ran ${CNI_COMMAND} c1 ${mine}\n`);
    },
  );

  test("ADD passes on the call's CNI_NETNS even if that cannot be opened", async () => {
    const CNI_NETNS = "/nonexistent/netns";
    expect((await carry(bench(), { CNI_NETNS }, [])).stdout).toBe(`ran ADD c1 ${CNI_NETNS}\n`);
  });

  test.each(["ADD", "CHECK", "DEL"])(
    "%s passes the runtime's own namespace only with CNI_NETNS_OVERRIDE [S-103]",
    async (CNI_COMMAND) => {
      const call = { CNI_COMMAND, CNI_NETNS: own };
      for (const env of [[], [`CNI_NETNS=${own}`], ["CNI_NETNS_OVERRIDE=1"]])
        expect(await carry(bench(), call, env)).toMatchObject({ outcome: "refused", stdout: "" });
      expect((await carry(bench(), call, ["CNI_NETNS="])).stdout).toBe(`ran ${CNI_COMMAND} c1 \n`);
      for (const CNI_NETNS_OVERRIDE of ["1", "TRUE", "true"]) {
        const result = await carry(bench(), { ...call, CNI_NETNS_OVERRIDE }, []);
        expect(result.stdout).toBe(`ran ${CNI_COMMAND} c1 ${own}\n`);
      }
    },
  );

  test.each(["DEL", "GC", "STATUS"])(
    "%s passes another container's namespace only by the path of its mount [S-102] [S-103]",
    async (CNI_COMMAND) => {
      const call = { CNI_COMMAND, CNI_NETNS_OVERRIDE: "1" };
      const netns = bench().netns();
      const order = (path: string) =>
        carry(bench(), call, ["CNI_COMMAND=DEL", "CNI_CONTAINERID=c2", `CNI_NETNS=${path}`]);
      expect((await order(netns)).stdout).toBe(`ran DEL c2 ${netns}\n`);
      const [link, dir] = [join(bench().state, "link"), join(bench().state, "dir")];
      symlinkSync(netns, link);
      symlinkSync(bench().dir, dir);
      const other = spawn("unshare", ["-n", "sleep", "60"]);
      const foreign = `/proc/${other.pid}/ns/net`;
      await waitUntil("the other process has a namespace", () =>
        readlinkSync(foreign) === readlinkSync(own) ? undefined : true,
      );
      const parent = basename(bench().dir);
      for (const path of [
        link,
        join(dir, basename(netns)),
        `/proc/self/root${netns}`,
        netns.replace("/tmp/", "/tmp//"),
        netns.replace(`/${parent}/`, `/${parent}/../${parent}/`),
      ])
        expect((await order(path)).stdout).toBe(`ran DEL c2 ${netns}\n`);
      const linkToOwn = join(bench().state, "own");
      symlinkSync(bench().ownNetns(), linkToOwn);
      for (const path of [
        own,
        bench().ownNetns(),
        `/proc/${process.pid}/ns/net`,
        "/nonexistent",
        "/dev/null",
        foreign,
        linkToOwn,
      ])
        expect(await order(path)).toMatchObject({
          outcome: "refused",
          stdout: "",
          message: `CNI_NETNS=${path} is not where a network namespace is mounted, or is the runtime's own`,
        });
      other.kill("SIGKILL");
    },
  );

  test("GC passes another container's namespace by its path in /run or in /var/run [S-103]", async () => {
    const dir = mkdtempSync("/run/plexus-shim-");
    const [mounted, link] = [join(dir, "ns"), join(dir, "link")];
    writeFileSync(mounted, "");
    symlinkSync(mounted, link);
    execFileSync("unshare", ["-n", "mount", "--bind", own, mounted]);
    const order = (path: string) =>
      carry(bench(), { CNI_COMMAND: "GC" }, [
        "CNI_COMMAND=DEL",
        "CNI_CONTAINERID=c2",
        `CNI_NETNS=${path}`,
      ]);
    for (const path of [mounted, `/var${mounted}`])
      expect((await order(path)).stdout).toBe(`ran DEL c2 ${path}\n`);
    for (const path of [link, `/var${link}`])
      expect((await order(path)).stdout).toBe(`ran DEL c2 ${mounted}\n`);
    execFileSync("umount", ["-l", mounted]);
    rmSync(dir, { recursive: true });
  });

  test.each(["ADD", "DEL", "GC", "STATUS"])(
    "%s runs VERSION only with libcni's placeholder or no namespace [S-103]",
    async (CNI_COMMAND) => {
      const call = { CNI_COMMAND, CNI_NETNS: bench().netns() };
      const order = (netns: string) =>
        carry(bench(), call, ["CNI_COMMAND=VERSION", "CNI_CONTAINERID=", `CNI_NETNS=${netns}`]);
      for (const netns of ["dummy", ""])
        expect((await order(netns)).stdout).toBe(`ran VERSION  ${netns}\n`);
      for (const netns of [call.CNI_NETNS, own, `/proc/${process.pid}/ns/net`])
        expect(await order(netns)).toMatchObject({ outcome: "refused", stdout: "" });
    },
  );

  test("DEL checks and passes on only the last of two entries for one variable", async () => {
    const entries = ["CNI_COMMAND=DEL", "CNI_COMMAND=ADD"];
    const call = { CNI_COMMAND: "DEL" };
    const result = await carry(bench(), call, entries);
    expect(result).toMatchObject({ outcome: "refused", stdout: "" });
    expect((await carry(bench(), call, entries.toReversed())).stdout).toBe("ran DEL c1 \n");
  });
});
