import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

/** Memory of a process, in MiB. */
export interface Memory {
  /** Resident at its highest. */
  readonly peak: number;
  /** Resident now. */
  readonly resident: number;
  /** Of the resident memory what is no file's: what the process has for itself. */
  readonly anonymous: number;
}

/** What a running process has. @throws Error as of node:fs when there is no such process */
export function memoryOf(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0) / 1024;
  return { peak: field("VmHWM"), resident: field("VmRSS"), anonymous: field("RssAnon") };
}

const mountPoint = "/sys/fs/cgroup";

/** Where a control group counts CPU time: the one hierarchy of cgroup v2, or cpuacct's of v1. */
function hierarchy(): string {
  return existsSync(join(mountPoint, "cgroup.controllers"))
    ? mountPoint
    : join(mountPoint, "cpuacct");
}

/**
 * The CPU time of processes and of all their descendants, even if their parent does not wait for them. Undefined
 * where no control group can be made, as in a container without rights to them.
 */
export class CpuGroup {
  readonly #dir: string;

  private constructor(dir: string) {
    this.#dir = dir;
  }

  static create(parent: string, name: string): CpuGroup | undefined {
    const dir = join(hierarchy(), parent, name);
    try {
      mkdirSync(dir, { recursive: true });
      return new CpuGroup(dir);
    } catch {
      return undefined;
    }
  }

  add(pid: number): void {
    writeFileSync(join(this.#dir, "cgroup.procs"), String(pid));
  }

  milliseconds(): number {
    const v1 = join(this.#dir, "cpuacct.usage");
    if (existsSync(v1)) return Number(readFileSync(v1, "utf8")) / 1e6;
    const stat = readFileSync(join(this.#dir, "cpu.stat"), "utf8");
    return Number(/^usage_usec (\d+)/m.exec(stat)?.[1] ?? 0) / 1e3;
  }
}

/** Removes the groups of a run, when none of its processes is left. */
export function removeCpuGroups(parent: string): void {
  const dir = join(hierarchy(), parent);
  if (!existsSync(dir)) return;
  const groups = readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  for (const { name } of groups) rmdirSync(join(dir, name));
  rmdirSync(dir);
}
