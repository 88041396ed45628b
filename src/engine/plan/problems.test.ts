import { expect, test } from "vitest";
import { CniError } from "#cni/error.ts";
import { attempt, type PlanContext, type PlanProblem, refuse } from "./problems.ts";

const error = new CniError("IoFailure", "cannot read it");

test.each<[problem: PlanProblem, subject: string | undefined]>([
  [{ error }, undefined],
  [{ error, network: "default/a" }, "default/a"],
  [{ error: error.about("default/a (net1)") }, "default/a (net1)"],
  [{ error: error.about("default/a (net1)"), network: "default/a" }, "default/a (net1)"],
])("the error of problem %# is about %s", async (problem, subject) => {
  const reason = "IoFailure";
  const step = () => Promise.reject(problem.error);
  const attempted = attempt({} as PlanContext, step, problem.network);
  await expect(attempted).rejects.toMatchObject({ reason, subject });
  expect(() => refuse({}, [problem])).toThrow(expect.objectContaining({ reason, subject }));
});
