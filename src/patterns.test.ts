import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";

/**
 * Every pattern of src/ whose form does not imply linear time, and why it is safe. plexusd
 * serves all pods of its node on one thread: a pattern that backtracks on one pod's text holds up all
 * others.
 */
const known: Readonly<Record<string, string>> = {
  "/-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null/y":
    "sticky, and no two neighbours match the same character",
  "/not\\s+found/gi": "white space is matched once after each `not`, and ends it",
  "/\\0.*$/s": "whatever follows the first NUL matches",
  "/\\uFFFD+$/": "an event's message, cut to 1 KiB",
  "/[.-]+$/": "230 characters of an object's name",
  "/\\.\\d+Z$/": "a date as we print it",
  "/^(?:\\[([^\\]]+)\\]|([^:[\\]]+)):(\\d{1,5})$/":
    "anchored; each part ends where the next begins",
  "/^([A-Za-z0-9][\\w.-]*)@([^/]+)\\.(?:(record|detached)(\\.damaged)?|engine-only)$/s":
    "255 bytes of a file name",
  "/^(?:([^/]+)\\/)?([^/]+)$/": "anchored; each part ends where the next begins",
  "/^(ingress|egress)=\\s*(\\d{1,12})([kmg]?)\\s*$/":
    "anchored; each part ends where the next begins",
  "/^\\/+[^/\\0][^\\0]*$/": "anchored; each part ends where the next begins",
  "/^\\/pods\\/([^/]+)\\/([^/]+)(\\/[^/]+)?(?:\\/([^/]+))?$/":
    "anchored; each part ends where the next begins",
  "/^plexus-([A-Za-z0-9][\\w.-]*)@[^/]+\\.json$/s": "255 bytes of a file name",
  "/^\\.(.+)\\.[0-9a-f]+\\.tmp$/s": "255 bytes of a file name",
  "/^# Source: (.+)\\n/m": "one line",
  "/(?<=[ \\t])(?:'(?:[^']|'')*'|\"(?:[^\"\\\\]|\\\\.)*\")/gs":
    "what is repeated has one reading; a match ends at the next quote, so that only the last one has none",
};

/** A literal of a regular expression where one can begin; src/ has no text that looks like one. */
const literal =
  /(?:^|[=(,:?!&|[]|\breturn)\s*(\/(?![*/])(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n[])+\/[a-z]*)/gm;

/**
 * Whether a pattern takes linear time by its form: nothing of it is repeated without bound, or one
 * thing is, and either the match is tried from one position only or nothing comes after it.
 */
function isLinear(pattern: string): boolean {
  const end = pattern.lastIndexOf("/");
  const flags = pattern.slice(end + 1);
  const body = pattern
    .slice(1, end)
    .replaceAll(/\\./g, "x")
    .replaceAll(/\[[^\]]*\]/g, "x")
    .replaceAll("(?", "(");
  const repeats = [...body.matchAll(/[*+]|\{\d+,\}/g)];
  const [first] = repeats;
  if (first === undefined) return true;
  if (repeats.length > 1) return false;
  const isAnchored = (body.startsWith("^") && !flags.includes("m")) || flags.includes("y");
  return isAnchored || first.index + first[0].length === body.length;
}

/** The text of each source file, without tests. */
async function sourceTexts(): Promise<string[]> {
  const names = await readdir(import.meta.dirname, { recursive: true });
  const sources = names.filter((name) => /\.ts$/.test(name) && !/\.test\.ts$|testing\//.test(name));
  return Promise.all(sources.map((name) => readFile(join(import.meta.dirname, name), "utf8")));
}

async function patterns(): Promise<string[]> {
  const code = (await sourceTexts()).map((text) => text.replaceAll(/\/\*[\s\S]*?\*\//g, ""));
  for (const text of code) expect(text).not.toMatch(/\bRegExp\(/);
  return code.flatMap((text) => [...text.matchAll(literal)].map((match) => match[1] ?? ""));
}

test("every regular expression that may take more than linear time is listed as safe [S-304]", async () => {
  const found = await patterns();
  expect(found.length).toBeGreaterThan(20);
  const suspects = found.filter((pattern) => !isLinear(pattern));
  expect([...new Set(suspects)].sort()).toEqual(Object.keys(known).sort());
});

test.each([
  ["/^a$/", true],
  ["/[*+]\\*/", true],
  ["/^[a-z]*$/s", true],
  ["/[ \\t]*/y", true],
  ["/[\\r\\n]+/g", true],
  ["/^[a-z]*$/m", false],
  ["/\\s*\\n\\s*/g", false],
  ["/[.-]+$/", false],
  ["/^(a+)+$/", false],
  ["/^\\d+a{2,}/", false],
])("isLinear(%j) is %j", (pattern, expected) => {
  expect(isLinear(pattern)).toBe(expected);
});

/** The statements that follow a `using` declaration in its block. */
const afterUsing = /^( *)(?:await )?using .*((?:\n\1.*|\n)*)/gm;

/** Calls whose promise is returned, not awaited, so that what is in use is disposed of too early. */
function earlyDisposals(text: string, asyncNames: ReadonlySet<string>): string[] {
  const blocks = [...text.matchAll(afterUsing)].map((match) => match[2] ?? "");
  const returned = blocks.flatMap((block) => [...block.matchAll(/\breturn (?:\w+\.)*(#?\w+)\(/g)]);
  return returned.map((match) => match[1] ?? "").filter((name) => asyncNames.has(name));
}

test("a promise is awaited before what it needs is disposed of", async () => {
  const texts = await sourceTexts();
  const asyncNames = new Set(
    texts.flatMap((text) =>
      [...text.matchAll(/\basync (?:function )?(#?\w+)\(/g)].map((match) => match[1] ?? ""),
    ),
  );
  expect(texts.flatMap((text) => earlyDisposals(text, asyncNames))).toEqual([]);
  const sample =
    "  using _lock = lock();\n  if (a)\n    return this.#write(a);\n}\n  return read(b);";
  expect(earlyDisposals(sample, new Set(["#write", "read"]))).toEqual(["#write"]);
});
