import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { mutated } from "#cni/testing/arbitrary.ts";
import type { JsonObject } from "#lib/json.ts";

/** The inputs that are kept in the repository: one of each kind, and those that were defects. */
const keptDir = join(import.meta.dirname, "corpus");

/** Where a run puts what it finds, and begins the next time. */
const foundDir = join(import.meta.dirname, "../../dist");

/** The corpus of a target: what is kept, and what earlier runs on this machine found. */
export function readCorpus(name: string): string[] {
  return [...keptInputs(name), ...readDir(foundIn(name))];
}

/** The inputs in the repository. */
export function keptInputs(name: string): string[] {
  return readDir(join(keptDir, name));
}

/** The inputs in the repository that are JSON, and the same with one of their parts replaced. */
export function keptJson(name: string): fc.Arbitrary<string> {
  const documents = keptInputs(name).flatMap((text) => {
    try {
      return [JSON.parse(text) as JsonObject];
    } catch {
      return [];
    }
  });
  const document = fc.constantFrom(...documents);
  return fc.oneof(document, mutated(document)).map((value) => JSON.stringify(value));
}

/** Keeps an input for the next run. @returns its path */
export function keepFound(name: string, text: string): string {
  return write(foundIn(name), text);
}

/** Keeps an input that is a defect. @returns its path */
export function keepDefect(name: string, text: string): string {
  return write(join(foundDir, `fuzz-defects-${name}`), text);
}

function foundIn(name: string): string {
  return join(foundDir, `corpus-${name}`);
}

function write(dir: string, text: string): string {
  mkdirSync(dir, { recursive: true });
  const path = join(dir, createHash("sha256").update(text).digest("hex").slice(0, 16));
  writeFileSync(path, text);
  return path;
}

function readDir(dir: string): string[] {
  if (!existsSync(dir)) return [];
  const files = readdirSync(dir).sort();
  return files.map((file) => readFileSync(join(dir, file), "utf8"));
}
