import { expect, test } from "vitest";
import type { RecordedAttachment } from "#engine/record/record.ts";
import type { Link } from "#netlink/links.ts";
import { isPresent, mayBePresent } from "./own-interfaces.ts";

const [mac, other] = ["02:00:00:00:00:0a", "02:00:00:00:00:0b"];
const host = { name: "veth1", mac: other };

test.each<{ what: string; interfaces?: unknown[]; links: object[]; is: boolean; may: boolean }>([
  {
    what: "its interface, in upper case",
    interfaces: [null, host, { name: "eth0", mac: mac.toUpperCase() }],
    links: [{ name: "eth0", mac }],
    is: true,
    may: true,
  },
  {
    what: "another interface with its address",
    interfaces: [{ name: "eth0", mac }],
    links: [{ name: "eth1", mac }],
    is: false,
    may: false,
  },
  {
    what: "another address",
    interfaces: [{ name: "eth0", mac }],
    links: [{ name: "eth0", mac: other }],
    is: false,
    may: false,
  },
  {
    what: "the name of one without address",
    interfaces: [host, { name: "eth0" }],
    links: [{ name: "eth0", mac }],
    is: false,
    may: true,
  },
  {
    what: "the name of one with an empty address",
    interfaces: [{ name: "eth0", mac: "" }],
    links: [{ name: "eth0", mac: "" }],
    is: false,
    may: true,
  },
  { what: "the name of one without result", links: [{ name: "eth0", mac }], is: false, may: true },
  {
    what: "another name than that of one without result",
    links: [{ name: "eth1", mac }],
    is: false,
    may: false,
  },
])("isPresent() and mayBePresent() beside $what", ({ interfaces, links, is, may }) => {
  const result = interfaces && { interfaces };
  const attachment = { ifName: "eth0", result } as unknown as RecordedAttachment;
  const found = [{ name: "lo", mac: "00:00:00:00:00:00" }, ...links] as Link[];
  expect([isPresent(attachment, found), mayBePresent(attachment, found)]).toEqual([is, may]);
});
