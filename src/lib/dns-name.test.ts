import { expect, test } from "vitest";
import { dnsLabelProblem, dnsSubdomainProblem } from "./dns-name.ts";

const noLabel = "must be a DNS-1123 label (a-z, 0-9 and '-')";
const noSubdomain = "must be a DNS-1123 subdomain (a-z, 0-9, '-' and '.')";

test.each(["a", "kube-system", "0", "a--b", "a".repeat(63)])("%j is a label", (text) => {
  expect([dnsLabelProblem(text), dnsSubdomainProblem(text)]).toEqual([undefined, undefined]);
});

test.each(["-a", "a-", "A", "a_b", "ａ", "a\n", "a b", "../a", "a\0", ".", "a..b", "a.-b"])(
  "%j is neither a label nor a subdomain",
  (text) => {
    expect([dnsLabelProblem(text), dnsSubdomainProblem(text)]).toEqual([noLabel, noSubdomain]);
  },
);

test("labels and subdomains have a maximum length; subdomains may contain dots", () => {
  expect(dnsLabelProblem("net-a.example")).toBe(noLabel);
  expect(dnsSubdomainProblem("net-a.example")).toBeUndefined();
  for (const problem of [dnsLabelProblem, dnsSubdomainProblem]) {
    expect(problem("")).toBe("must not be empty");
  }
  expect(dnsLabelProblem("a".repeat(64))).toBe("must be at most 63 characters long");
  expect(dnsSubdomainProblem("a".repeat(253))).toBeUndefined();
  expect(dnsSubdomainProblem("a".repeat(254))).toBe("must be at most 253 characters long");
});
