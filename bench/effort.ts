/** How much is measured. */
export interface Effort {
  readonly quick: boolean;
  /** Rounds of one pod at a time. */
  readonly rounds: number;
  /** False when BENCH_CASES lists other parts of the run. */
  wants(part: string): boolean;
}

/** What QUICK, BENCH_ROUNDS and BENCH_CASES say. */
export function effortWanted(): Effort {
  const quick = (process.env.QUICK ?? "") !== "";
  const rounds = Number(process.env.BENCH_ROUNDS ?? (quick ? 8 : 200));
  const parts = listed("BENCH_CASES");
  return { quick, rounds, wants: (part) => parts?.includes(part) ?? true };
}

/** The words of a variable, which commas separate. Undefined when it is not set, or empty. */
export function listed(variable: string): string[] | undefined {
  const value = process.env[variable] ?? "";
  return value === "" ? undefined : value.split(",");
}
