/** An attachment in use: CNI 1.1.0 §2 "GC", with the specification's keys. */
export interface ValidAttachment {
  readonly containerID: string;
  readonly ifname: string;
}

/** GC's key in the specification and in its 1.1.0 tag. libcni writes both and reads the first. */
export const validAttachmentsKeys = ["cni.dev/valid-attachments", "cni.dev/attachments"] as const;
