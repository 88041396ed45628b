import { flavour } from "../support/flavour.ts";
import { type Edit, editsBeside, formatEdit, parseEdit } from "./edits/edit.ts";
import {
  everyFault,
  type Fault,
  type FaultKind,
  formatFault,
  type Operation,
  parseFault,
} from "./fault.ts";
import { Random } from "./random.ts";

/** One run of the matrix: an ADD and its DELs with faults, in a form that fits a line. */
export interface Scenario {
  /** At most one for each operation. */
  readonly faults: readonly Fault[];
  /** After a successful ADD. What it breaks is `repaired` as what broke in ADD, and then the edit completes. */
  readonly edit?: Edit;
  /** Whether what broke in ADD is put right (restarted, mounted, given back) before the first DEL or after it. */
  readonly repaired: "before DEL" | "after DEL";
  /** Whether the runtime removes the network namespace before the first DEL. */
  readonly netns: "kept" | "removed";
}

/** `ADD start disk full; DEL end plexusd kill; repaired after DEL; netns kept`. */
export function formatScenario({ faults, edit, repaired, netns }: Scenario): string {
  const edits = edit === undefined ? [] : [formatEdit(edit)];
  return [...faults.map(formatFault), ...edits, `repaired ${repaired}`, `netns ${netns}`].join(
    "; ",
  );
}

/** Reads what {@link formatScenario} wrote. @throws Error naming the part that makes no sense */
export function parseScenario(line: string): Scenario {
  const parts = line.split(";").map((part) => part.trim());
  const value = <T extends string>(key: string, values: readonly [T, ...T[]]): T => {
    const part = parts.find((p) => p.startsWith(`${key} `));
    const found = values.find((v) => part === `${key} ${v}`);
    if (part !== undefined && found === undefined) throw new Error(`${part}: use ${values}`);
    return found ?? values[0];
  };
  const isFault = (part: string): boolean => /^(ADD|DEL) /.test(part);
  const unknown = parts.find((p) => p !== "" && !isFault(p) && !/^(edit|repaired|netns) /.test(p));
  if (unknown !== undefined) throw new Error(`${JSON.stringify(unknown)} is no part of a scenario`);
  const edit = parts.find((part) => part.startsWith("edit "));
  return {
    faults: parts.filter(isFault).map(parseFault),
    ...(edit !== undefined && { edit: parseEdit(edit) }),
    repaired: value("repaired", ["before DEL", "after DEL"]),
    netns: value("netns", ["kept", "removed"]),
  };
}

/** Of the random runs. */
const editedShare = 0.3;

/** The run of a seed and a number: the same at any time, whatever ran before it. */
export function randomScenario(seed: string, kinds: readonly FaultKind[]): Scenario {
  const random = new Random(seed);
  const faultOf = (operation: Operation, earlier: readonly Fault[]): Fault => {
    const kind = random.pick(earlier.some(keepsFile) ? kinds.filter(isPossibleBeside) : kinds);
    const possible = everyFault([kind]).filter((fault) => fault.operation === operation);
    return random.pick(possible);
  };
  const which = random.pick(["ADD", "DEL", "both"] as const);
  const faults: Fault[] = [];
  for (const operation of ["ADD", "DEL"] as const) {
    if (which === operation || which === "both") faults.push(faultOf(operation, faults));
  }
  const scenario: Scenario = {
    faults,
    repaired: random.pick(["before DEL", "after DEL"]),
    netns: random.chance(0.15) || faults.some(isForGood) ? "removed" : "kept",
  };
  const edits = editsBeside(faults);
  const isEdited = flavour === "daemon" && edits.length > 0 && random.chance(editedShare);
  return isEdited ? { ...scenario, edit: random.pick(edits) } : scenario;
}

/** Whether a plugin that hangs keeps the sandbox's lock file open, or a stopped plexus-standalone its record. */
function keepsFile({ target, action }: Fault): boolean {
  return action === "kill-while-hung" || (target === "standalone" && action === "stop");
}

/** A disk with a file that is open for writing stays writable. */
function isPossibleBeside({ action }: FaultKind): boolean {
  return action !== "read-only";
}

/**
 * The first `count` scenarios of a fixed walk through the matrix, one fault each and none twice: every
 * kind comes as often as the others while it has steps left, ADD and DEL in turns, and each kind walks
 * over its steps with a stride.
 */
export function fixedScenarios(count: number, kinds: readonly FaultKind[]): Scenario[] {
  const columns = kinds.flatMap((kind) =>
    (["ADD", "DEL"] as const).map((operation) =>
      everyFault([kind]).filter((fault) => fault.operation === operation),
    ),
  );
  const rounds = Math.max(...columns.map((column) => column.length));
  const walk = Array.from({ length: rounds }, (_, round) =>
    columns.flatMap((column, n) =>
      round < column.length
        ? (column[(round * strideOf(column.length) + n) % column.length] ?? [])
        : [],
    ),
  );
  return walk
    .flat()
    .slice(0, count)
    .map(
      (fault, n): Scenario => ({
        faults: [fault],
        repaired: n % 3 === 0 ? "after DEL" : "before DEL",
        netns: n % 7 === 3 || isForGood(fault) ? "removed" : "kept",
        ...editOf(fault, n),
      }),
    );
}

/** Every second run with a fault in DEL has an edit, so that nothing hinders it but its own fault. */
function editOf(fault: Fault, n: number): Pick<Scenario, "edit"> {
  if (flavour !== "daemon" || fault.operation !== "DEL" || n % 4 !== 1) return {};
  const edits = editsBeside([fault]);
  const edit = edits[(n * 37) % edits.length];
  return edit === undefined ? {} : { edit };
}

/** Without its plugin an interface only goes with its namespace. */
function isForGood({ action }: Fault): boolean {
  return action === "lost";
}

/** A stride that visits all of a column before it comes back. */
function strideOf(length: number): number {
  const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));
  let stride = Math.max(1, Math.floor(length * 0.618));
  while (gcd(stride, length) !== 1) stride++;
  return stride;
}
