import { type FindingReason, type Verdict, verdictOf, verdicts } from "./reasons.ts";

/** Something that was found of a pod or of the node. Only its reason's row says how bad it is. */
export interface Condition {
  readonly reason: FindingReason;
  /** What is the matter; changes only with the matter. */
  readonly message: string;
  /** What to do. */
  readonly step?: string | undefined;
  /** What happens next, and when. */
  readonly next?: string | undefined;
  /** The network that it concerns, with the interface if that is known. */
  readonly subject?: string | undefined;
  /** Whether pods lack what they ask for, or will after a restart: a problem whatever the reason. */
  readonly lacksNetworks?: boolean | undefined;
  /** Whether it needs no event: another one has said it, or it ends by itself. @default false */
  readonly isQuiet?: boolean | undefined;
}

/** A condition of a node. */
export function found(reason: FindingReason, message: string, step?: string): Condition {
  return { reason, message, step };
}

/** How bad a condition is. */
export function verdictOfCondition(condition: Condition): Verdict {
  return condition.lacksNetworks === true ? "problem" : verdictOf(condition.reason);
}

/** Whether nothing has to be done or waited for. */
export function isFine(condition: Condition): boolean {
  return ["ok", "warning"].includes(verdictOfCondition(condition));
}

/** The worst first, and what is fine only if there is nothing else. */
export function worstFirst<C extends Condition>(conditions: readonly C[]): C[] {
  const rank = (each: C): number => verdicts.indexOf(verdictOfCondition(each));
  return conditions.toSorted((a, b) => rank(a) - rank(b));
}

/** What is the matter, what to do and what happens next, as events and `doctor` have it. */
export function textOf({ message, step, next }: Condition): string {
  return [message, step, next].filter((part) => part !== undefined).join("; ");
}

/** A condition as the text of an event. */
export function eventOf(condition: Condition): Pick<Condition, "reason" | "message"> {
  return { reason: condition.reason, message: textOf(condition) };
}
