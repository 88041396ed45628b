import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isAbsent } from "#lib/files/is-absent.ts";

/** The inputs that are kept in the repository: one of each kind, and those that were defects. */
const keptDir = join(import.meta.dirname, "corpus");

/** Where a run puts what it finds, and begins the next time. */
const foundDir = join(import.meta.dirname, "../../dist");

/** The corpus of a target: what is kept, and what earlier runs on this machine found. */
export function readCorpus(name: string): string[] {
  return [
    ...keptInputs(name).map(({ text }) => text),
    ...readDir(foundIn(name)).map(({ text }) => text),
  ];
}

/** The inputs in the repository, with their file names. */
export function keptInputs(name: string): { file: string; text: string }[] {
  return readDir(join(keptDir, name));
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

function readDir(dir: string): { file: string; text: string }[] {
  try {
    return readdirSync(dir)
      .sort()
      .map((file) => ({ file, text: readFileSync(join(dir, file), "utf8") }));
  } catch (error) {
    if (isAbsent(error)) return [];
    throw error;
  }
}
