import {
  chmodSync,
  chownSync,
  lchownSync,
  linkSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { expect, test } from "vitest";
import { type FieldValue, FrameType } from "./lab/frames.ts";
import { type Bench, cniError, type ExecResult, eachBuild } from "./lab/harness.ts";
import { PlanFile } from "./lab/plan-file.ts";

/** Creates a directory that is not in CNI_PATH, with a plugin `p`, and returns its path. */
function directory(bench: Bench, name = "extra"): string {
  const dir = join(bench.dir, name);
  mkdirSync(dir, { recursive: true, mode: 0o755 });
  bench.plugin("p", `echo ${name}`, dir);
  return dir;
}

function list(bench: Bench, ...lines: string[]): void {
  writeFileSync(bench.pluginDirs, `# directories\n${lines.join("\n")}\n`, { mode: 0o644 });
}

/** Moves a file or directory, and replaces it with a symlink. */
function makeLink(path: string): void {
  renameSync(path, `${path}.real`);
  symlinkSync(`${path}.real`, path);
}

function relativeLink(path: string): void {
  renameSync(path, `${path}.real`);
  symlinkSync(`../${basename(dirname(path))}/${basename(path)}.real`, path);
}

/** As {@link makeLink}, but another user can replace the link. */
function usersLink(path: string): void {
  makeLink(path);
  lchownSync(path, 65534, 65534);
}

/** Only root's link can be seen in the plugin's path, but it leads to the link of another user. */
function throughUsersLink(dir: string): void {
  usersLink(`${dir}/p`);
  renameSync(`${dir}/p`, `${dir}.p`);
  symlinkSync(`${dir}.p`, `${dir}/p`);
}

/** Puts as many links before a file as the kernel follows. */
function makeLinks(path: string): void {
  renameSync(path, `${path}.0`);
  for (let i = 1; i < 40; i++) symlinkSync(`${path}.${i - 1}`, `${path}.${i}`);
  symlinkSync(`${path}.39`, path);
}

function makeLoop(path: string): void {
  rmSync(path);
  symlinkSync(path, path);
}

/** Lets a group other than root's write a file or directory. */
function openToGroup(path: string): void {
  chownSync(path, 0, 65534);
  chmodSync(path, 0o775);
}

interface Search {
  readonly path: string;
  readonly types: FieldValue[];
  /** Of the call. */
  readonly env?: Record<string, string>;
}

async function find(bench: Bench, { path, types, env = {} }: Search): Promise<string[][]> {
  let results: string[][] = [];
  const server = await bench.engine(async (engine) => {
    results = await engine.find(path, ...types);
    engine.done();
  });
  expect(await bench.run({ env })).toMatchObject({ code: 0 });
  server.close();
  return results;
}

function expectRefused(bench: Bench, result: ExecResult, dir: string): void {
  expect(result).toMatchObject({ outcome: "refused", code: 0, stdout: "" });
  expect(result.message).toBe(
    `directory ${dir} of plugin "p" is not trusted: add it to the runtime's CNI_PATH, or list it in ${bench.pluginDirs}`,
  );
}

eachBuild("a directory in the call's CNI_PATH", (bench) => {
  test.each([
    ["writable by all users", (dir: string) => chmodSync(dir, 0o777)],
    ["owned by another user", (dir: string) => chownSync(dir, 65534, 65534)],
    ["a symlink", makeLink],
  ])(
    "is trusted, as by the runtime, even if it is %s; its plugins run as root [S-107]",
    async (_, change) => {
      bench().plugin("p", 'echo "$(id -u) $(cat)"');
      chownSync(join(bench().bin, "p"), 65534, 65534);
      change(bench().bin);
      const result = await bench().order({ type: "p", stdin: '{"any":"thing"}' });
      expect(result).toMatchObject({ stdout: '0 {"any":"thing"}\n' });
    },
  );

  test.each([
    ["followed by a slash", (bin: string) => [`${bin}/`, bin]],
    ["lacking the trailing slash of CNI_PATH", (bin: string) => [bin, `${bin}//`]],
    ["among empty entries", (bin: string) => [`::${bin}`, `:${bin}::`]],
    ["relative", (bin: string) => [relative(process.cwd(), bin), relative(process.cwd(), bin)]],
  ])("is found if its path in the order is %s", async (_, paths) => {
    bench().plugin("p", "echo ran");
    const [path, CNI_PATH] = paths(bench().bin);
    const result = await bench().order({ type: "p", path: path! }, { CNI_PATH });
    expect(result).toMatchObject({ stdout: "ran\n" });
  });

  test("does not make directories below or above it trusted", async () => {
    const below = directory(bench(), "bin/below");
    expectRefused(bench(), await bench().order({ type: "p", path: below }), below);
    bench().plugin("p", "echo above", bench().dir);
    expectRefused(bench(), await bench().order({ type: "p", path: bench().dir }), bench().dir);
  });

  test.each([
    ["DEL", true],
    ["GC", true],
    ["STATUS", true],
    ["ADD", false],
    ["CHECK", false],
  ])(
    "is searched by %s after the order's path, as plugins may have been moved: %s",
    async (CNI_COMMAND, isSearched) => {
      bench().plugin("p", "echo moved");
      const old = join(bench().dir, "old");
      list(bench(), old);
      const result = await bench().order({ type: "p", path: old }, { CNI_COMMAND });
      const moved = { outcome: "exited", stdout: "moved\n" };
      expect(result).toMatchObject(isSearched ? moved : { outcome: "missing", stdout: "" });
      const none = await bench().order({ type: "none", path: old }, { CNI_COMMAND });
      expect(none.message).toBe(
        `no plugin "none" in "${old}${isSearched ? `:${bench().bin}` : ""}"`,
      );
    },
  );
});

eachBuild("a directory outside of the call's CNI_PATH", (bench) => {
  test.each(["ADD", "CHECK", "DEL", "GC", "STATUS"])(
    "does not let %s execute a shell, by any path [S-101]",
    async (CNI_COMMAND) => {
      const { bin } = bench();
      for (const order of [
        { type: "sh", path: "/bin" },
        { type: "sh", path: "/bin", env: ["CNI_PATH=/bin"] },
        { type: "sh", path: `${bin}:/usr/bin` },
        { type: "sh", path: `${bin}/../../../../bin` },
        { type: "../../../bin/sh", path: bin },
        { type: "/bin/sh", path: bin },
      ]) {
        const result = await bench().order({ stdin: "exit 7", ...order }, { CNI_COMMAND });
        expect(result).toMatchObject({ outcome: "refused", stdout: "", stderr: "" });
      }
    },
  );

  test("that is not listed is refused, and the error names the file to list it in [S-101]", async () => {
    const dir = directory(bench());
    const path = `${dir}:${directory(bench(), "second")}`;
    expectRefused(bench(), await bench().order({ type: "p", path }), dir);
    list(bench(), "/opt/cni/bin", `#${dir}`, `${dir}x`, ` ${dir}`);
    expectRefused(bench(), await bench().order({ type: "p", path: dir }), dir);
  });

  test("that the administrator has listed is used, including hard links in it", async () => {
    const dir = directory(bench());
    list(bench(), "/opt/cni/bin", `${dir}/`);
    linkSync(join(dir, "p"), join(dir, "q"));
    for (const order of [
      { type: "p", path: dir },
      { type: "p", path: `${dir}/` },
      { type: "q", path: dir },
    ])
      expect(await bench().order(order)).toMatchObject({ stdout: "extra\n" });
  });

  test("that is not trusted is skipped if a later one has the plugin", async () => {
    const dir = directory(bench());
    bench().plugin("p", "echo trusted");
    const result = await bench().order({ type: "p", path: `${dir}:${bench().bin}` });
    expect(result).toMatchObject({ stdout: "trusted\n" });
  });

  test.each<[string, (dir: string) => void]>([
    ["it is a link of root", makeLink],
    ["the plugin is a link of root", (dir) => makeLink(join(dir, "p"))],
    ["forty links of root lead to the plugin", (dir) => makeLinks(join(dir, "p"))],
    ["the plugin is a relative link of root", (dir) => relativeLink(join(dir, "p"))],
    ["root's group may write it", (dir) => chmodSync(dir, 0o775)],
  ])("that is listed is used if %s", async (_, change) => {
    const dir = directory(bench());
    list(bench(), dir);
    change(dir);
    expect(await bench().order({ type: "p", path: dir })).toMatchObject({ stdout: "extra\n" });
  });

  test.each<[string, (dir: string, bench: Bench) => void]>([
    ["it is writable by its group", (dir) => openToGroup(dir)],
    ["it is writable by all users, even if sticky", (dir) => chmodSync(dir, 0o1777)],
    ["it is owned by another user", (dir) => chownSync(dir, 65534, 65534)],
    ["the plugin is writable by its group", (dir) => openToGroup(join(dir, "p"))],
    ["the plugin is owned by another user", (dir) => chownSync(join(dir, "p"), 65534, 65534)],
    ["the plugin is another user's link", (dir) => usersLink(join(dir, "p"))],
    ["it is another user's link", (dir) => usersLink(dir)],
    ["its link leads through another user's", throughUsersLink],
    ["its links lead to each other", (dir) => makeLoop(join(dir, "p"))],
    ["a directory above it is writable by all users", (_, { dir }) => chmodSync(dir, 0o777)],
    ["a directory above it is owned by another user", (_, { dir }) => chownSync(dir, 65534, 65534)],
    ["the list is writable by its group", (_, { pluginDirs }) => openToGroup(pluginDirs)],
    ["another user owns the list", (_, { pluginDirs }) => chownSync(pluginDirs, 65534, 65534)],
    ["the list is a symlink", (_, { pluginDirs }) => makeLink(pluginDirs)],
  ])("that is listed is refused if %s [S-101] [S-503]", async (_, spoil) => {
    const dir = directory(bench());
    list(bench(), dir);
    spoil(dir, bench());
    const result = await bench().order({ type: "p", path: dir });
    expect(result).toMatchObject({ stdout: "" });
    expect(`${result.outcome}: ${result.message}`).toMatch(
      /^(refused: (directory|plugin) .* is not trusted: |missing: )/,
    );
  });

  test("that is listed is refused if its path is relative", async () => {
    const dir = directory(bench());
    const path = relative(process.cwd(), dir);
    list(bench(), path);
    expectRefused(bench(), await bench().order({ type: "p", path }), path);
  });
});

eachBuild("a delegate's CNI_PATH", (bench) => {
  test("has the trusted directories of the order's CNI_PATH, then those of the call's [S-104]", async () => {
    const listed = directory(bench(), "listed");
    const spoilt = directory(bench(), "spoilt");
    const second = directory(bench(), "second");
    const loop = join(bench().dir, "loop");
    const file = bench().plugin("p", 'echo "$CNI_PATH"');
    list(bench(), listed, spoilt, loop, file);
    chmodSync(spoilt, 0o777);
    symlinkSync(loop, loop);
    const CNI_PATH = `${bench().bin}:${second}`;
    const path = `/nonexistent:${second}:/usr/bin:${spoilt}:${loop}:${file}::${listed}`;
    const result = await bench().order({ type: "p", env: [`CNI_PATH=${path}`] }, { CNI_PATH });
    expect(result.stdout).toBe(`${second}:${listed}:${bench().bin}\n`);
    expect((await bench().order({ type: "p" }, { CNI_PATH })).stdout).toBe(`${CNI_PATH}\n`);
  });
});

eachBuild("a search for plugins", (bench) => {
  test("returns for each type the outcome of running it, and runs nothing", async () => {
    const dir = directory(bench());
    const mark = join(bench().dir, "ran");
    bench().plugin("a", `touch ${mark}`);
    const types = ["a", "p", "none", "../bin/a", "a\0b", ""];
    list(bench(), dir);
    openToGroup(join(dir, "p"));
    const results = await find(bench(), { path: `${bench().bin}:${dir}`, types });
    const outcomes = ["found", "refused", "missing", "refused", "refused", "refused"];
    expect(results.map(([outcome]) => outcome)).toEqual(outcomes);
    expect(results[0]![1]).toBe("");
    expect(results[1]![1]).toBe(
      `plugin "p" in ${dir} is not trusted: make every component of its path root's and writable by root alone`,
    );
    expect(results[2]![1]).toBe(`no plugin "none" in "${bench().bin}:${dir}"`);
    expect(results[3]![1]).toBe('plugin type "../bin/a" is not a plain file name');
  });

  test.each(["ADD", "DEL"])(
    "by %s does not tell which files other directories contain [S-110]",
    async (CNI_COMMAND) => {
      const dir = directory(bench());
      mkdirSync(join(dir, "a-directory"));
      for (const path of [dir, "/nonexistent", join(dir, "p"), "relative"]) {
        const types = ["p", "a-directory", "nothing"];
        const results = await find(bench(), { path, types, env: { CNI_COMMAND } });
        const answer = (type: string): string[] => [
          "refused",
          expect.stringMatching(`^directory ${path} of plugin "${type}" is not trusted: `),
        ];
        expect(results).toEqual(types.map(answer));
        for (const type of types)
          expect(await bench().order({ type, path }, { CNI_COMMAND })).toMatchObject({
            outcome: "refused",
            message: results[types.indexOf(type)]![1],
          });
      }
    },
  );

  test("returns an answer for sixty types at once, and for an empty list", async () => {
    const types = Array.from({ length: 60 }, (_, i) => `p${i}`);
    bench().plugin("p59", "");
    const results = await find(bench(), { path: bench().bin, types });
    expect(results).toHaveLength(60);
    expect(results[59]).toEqual(["found", ""]);
    expect(await find(bench(), { path: bench().bin, types: [] })).toEqual([]);
  });

  test("does not stop ADD from retrying if the engine closes the connection after it", async () => {
    let calls = 0;
    await bench().engine(async (engine) => {
      await engine.find(bench().bin, "p");
      if (++calls === 1) engine.socket.destroy();
      else engine.done(0, "second");
    });
    const answer = await bench().run({ env: { PLEXUS_WAIT_MS: "10000" } });
    expect(answer).toMatchObject({ code: 0, stdout: "second" });
  });
});

eachBuild("required plugins", (bench) => {
  test("do not count for the next engine if theirs ends before its order", async () => {
    bench().plugin("a", "echo ran");
    let calls = 0;
    await bench().engine(async (engine) => {
      if (++calls === 1) {
        engine.send(FrameType.require, [bench().bin, "none"]);
        await engine.find(bench().bin, "a");
        engine.socket.destroy();
      } else engine.done(0, (await engine.exec({ type: "a", path: bench().bin })).stdout);
    });
    const answer = await bench().run({ env: { PLEXUS_WAIT_MS: "10000" } });
    expect(answer).toMatchObject({ code: 0, stdout: "ran\n" });
  });

  test("let the next order run nothing if one of them is missing or refused, and end with its outcome", async () => {
    const dir = directory(bench());
    bench().plugin("a", "echo a ran");
    list(bench(), dir);
    openToGroup(dir);
    const path = `${bench().bin}:${dir}`;
    const outcomes: string[] = [];
    await bench().engine(async (engine) => {
      for (const types of [["a", "p", "none"], ["none", "p"], ["a", "a"], [], ["../a"]]) {
        engine.send(FrameType.require, [path, ...types]);
        const { outcome, stdout, message } = await engine.exec({ type: "a", path });
        outcomes.push(`${outcome} ${stdout}${message}`.trim());
      }
      engine.send(FrameType.require, [path, "none"]);
      engine.send(FrameType.require, [path, "a"]);
      outcomes.push((await engine.exec({ type: "a", path })).outcome);
      outcomes.push((await engine.exec({ type: "a", path })).outcome);
      engine.done();
    });
    expect(await bench().run()).toMatchObject({ code: 0 });
    expect(outcomes).toEqual([
      expect.stringMatching(/^refused plugin "p" in .* is not trusted/),
      `missing no plugin "none" in "${path}"`,
      "exited a ran",
      "exited a ran",
      'refused plugin type "../a" is not a plain file name',
      "missing",
      "exited",
    ]);
  });

  test("do not stop ADD from retrying if the engine closes the connection after them", async () => {
    let calls = 0;
    await bench().engine((engine) => {
      engine.send(FrameType.require, [bench().bin, "none"]);
      if (++calls === 1) engine.socket.destroySoon();
      else engine.done(0, "second");
    });
    const answer = await bench().run({ env: { PLEXUS_WAIT_MS: "10000" } });
    expect(answer).toMatchObject({ code: 0, stdout: "second" });
  });
});

eachBuild("a user other than root who calls the shim", (bench) => {
  test.each(["ADD", "DEL", "CHECK", "GC", "STATUS"])(
    "cannot reach plexusd or run a plugin by %s [S-500]",
    async (CNI_COMMAND) => {
      let connections = 0;
      await bench().engine(() => void connections++);
      chmodSync(bench().socket, 0o600);
      const plan = new PlanFile(bench());
      plan.write([{}]);
      const answer = await bench().run({ env: { CNI_COMMAND }, uid: 65534 });
      expect([5, 50]).toContain(cniError(answer).code);
      expect(answer.stdout).toMatch(/cannot (lock|reach) .*: permission denied/i);
      expect([connections, plan.ran]).toEqual([0, []]);
    },
  );
});
