import { asCniError, CniError } from "#cni/error.ts";
import type { CallContext } from "#engine/call/call-context.ts";
import type { Pod } from "#engine/ports/cluster.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";

/** Why an ADD of a pod fails, or what it tolerates. */
export interface PlanProblem {
  readonly error: CniError;
  readonly network?: string;
  /** Whether the configuration attaches the pod nevertheless. @default false */
  readonly isTolerated?: boolean;
}

/** What the planner works with. */
export interface PlanContext extends CallContext {
  /** Collects the problems; without it the planner throws the first one, as an ADD does. */
  readonly problems?: PlanProblem[] | undefined;
}

/** Runs a step of the plan. @returns undefined when it fails and problems are collected */
export async function attempt<T>(
  { problems }: PlanContext,
  step: () => Promise<T> | T,
  network?: string,
): Promise<T | undefined> {
  try {
    return await step();
  } catch (error) {
    const found = omitUndefined({ error: asCniError(error), network });
    if (problems === undefined) throw error instanceof CniError ? aboutItsNetwork(found) : error;
    problems.push(found);
    return undefined;
  }
}

/** One of several steps that may wait for the API server. */
export interface LookUp<T> {
  readonly step: () => Promise<T | undefined> | T;
  readonly network?: string;
}

/**
 * Runs steps at the same time, so that a slow API server delays an ADD once and not per network;
 * otherwise as {@link attempt}. If several fail, the first step's failure counts, not the fastest.
 * @returns the results of the steps that succeed, in order
 */
export async function attemptAll<T>(ctx: PlanContext, lookUps: readonly LookUp<T>[]): Promise<T[]> {
  const begun = lookUps.map(async ({ step }) => step());
  // Those after the first failure end unheard.
  for (const each of begun) each.catch(() => undefined);
  const found: T[] = [];
  for (const [i, each] of begun.entries()) {
    const result = await attempt<T | undefined>(ctx, () => each, lookUps[i]?.network);
    if (result !== undefined) found.push(result);
  }
  return found;
}

/**
 * Reports problems for which an ADD fails.
 * @throws CniError for all of them, with code and reason of the first, unless they are collected
 */
export function refuse(
  { problems }: Pick<PlanContext, "problems">,
  found: readonly PlanProblem[],
): void {
  problems?.push(...found);
  const [problem] = found;
  if (problems !== undefined || problem === undefined) return;
  const first = aboutItsNetwork(problem);
  const messages = [...new Set(found.map(({ error }) => error.message))];
  throw messages.length === 1 ? first : first.withMessage(messages.join("; "));
}

/** Logs a tolerated problem with what the pod gets, and emits an event; or collects it. */
export function tolerate(
  ctx: PlanContext,
  pod: Pod | undefined,
  { effect, ...problem }: PlanProblem & { readonly effect: string },
): void {
  if (ctx.problems !== undefined) {
    ctx.problems.push({ ...problem, isTolerated: true });
    return;
  }
  const { message, reason } = problem.error;
  ctx.logger.warn(omitUndefined({ network: problem.network, reason }), `${message}; ${effect}`);
  if (pod === undefined) return;
  ctx.deps.events.record(pod, { reason: reason ?? "AttachFailed", message });
}

function aboutItsNetwork({ error, network }: PlanProblem): CniError {
  return network === undefined || error.subject !== undefined ? error : error.about(network);
}
