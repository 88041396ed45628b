import { expect, test } from "vitest";
import { ifNameProblem } from "./if-names.ts";

test("ifNameProblem() takes what the kernel takes", () => {
  for (const name of ["eth0", "a", "0123456789abcde", "net-1.5_x", "é", "Ethernet"]) {
    expect(ifNameProblem(name)).toBeUndefined();
  }
});
