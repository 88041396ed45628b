import { expect, test } from "vitest";
import { dnsLabelProblem, dnsSubdomainProblem } from "./dns-name.ts";

test.each(["a", "kube-system", "0", "a--b", "a".repeat(63)])("%j is a label", (text) => {
  expect(dnsLabelProblem(text)).toBeUndefined();
  expect(dnsSubdomainProblem(text)).toBeUndefined();
});

test.each(["", "-a", "a-", "A", "a_b", "ａ", "a\n", "a b", "../a", "a\0"])(
  "%j is neither a label nor a subdomain",
  (text) => {
    expect(dnsLabelProblem(text)).toMatch(/^must /);
    expect(dnsSubdomainProblem(text)).toMatch(/^must /);
  },
);

test("a subdomain is made of labels", () => {
  expect(dnsSubdomainProblem("net-a.example")).toBeUndefined();
  expect(dnsLabelProblem("net-a.example")).toBe("must be a DNS-1123 label (a-z, 0-9 and '-')");
  for (const text of [".", "a..b", ".a", "a.", "a.-b"]) {
    expect(dnsSubdomainProblem(text)).toBe("must be a DNS-1123 subdomain (a-z, 0-9, '-' and '.')");
  }
});

test("both have a length", () => {
  expect(dnsLabelProblem("a".repeat(64))).toBe("must be at most 63 characters long");
  expect(dnsSubdomainProblem("a".repeat(253))).toBeUndefined();
  expect(dnsSubdomainProblem("a".repeat(254))).toBe("must be at most 253 characters long");
});
