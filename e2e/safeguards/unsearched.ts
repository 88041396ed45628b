/** Safeguards whose absence no history shows, by reason. Other tests must show it: unit tests, the fault matrix or the power losses. */
export const unsearched: Readonly<Record<string, readonly string[]>> = {
  "In one of 5,000 to 100,000 histories only, faults meet that show the absence": [
    "a leftover is not retried while a shim replays its plan",
    "a process that was stopped does not replace the record of the next one",
    "a rollback waits for a missing plugin of what was attempted",
    "the grace period of a missing plugin starts when it is missing",
    "the shim locks a sandbox while another sandbox's call detaches it",
    "calls for a sandbox and retries of it run in turn",
    "the time for a leftover is limited",
    "a call without room for its lock file counts as one of every sandbox",
    "a plugin attaches only if its process group is noted in the lock file",
    "an edit is compared with a pod that was read after it",
    "plexusd replaces only the text that it has read",
    "plexusd restores only plugins whose executable is there",
    "a DEL leaves a device only to a sandbox that is attached with it",
    "after an incomplete update, a record keeps its boot",
  ],
  "Another safeguard does the same": [
    "a record that another process finished is not restored",
    "a failed sync of a record that no caller waits for is handled",
    "the agent locks the sandbox whose networks it changes",
    "a pod counts as missing only after ten minutes",
    "a status is written only to the pod with its UID",
    "a status write that fails is retried",
    "all pods are compared with their records after the start",
    "a status that is being sent is not sent again",
    "a DEL marks its record before anything else",
    "GC excludes other operations in the shim",
    "a lock is taken again if its file was removed meanwhile",
    "operations on a sandbox exclude each other in the shim",
    "a GC detaches only sandboxes of its list",
    "what was left out of the default network stays out",
    "a DEL leaves a device that another sandbox has",
    "a plugin that could not be executed owes no DEL",
  ],
  "None of 12,000 histories stops plexusd until another process has attached its container again": [
    "a call changes only the record that it has created or read",
  ],
  "No runtime of the model repeats a DEL after it has used the path of the sandbox again": [
    "a late DEL leaves the interface of the sandbox that has its path",
    "a replayed DEL leaves the namespace of another sandbox",
  ],
  "No runtime of the model attaches a container that runs": [
    "an ADD that has attached nothing leaves the record of an earlier sandbox",
  ],
  "A sync that fails and a loss of power right after it meet too seldom": [
    "an ADD succeeds only when its record is on disk",
  ],
  "No property counts the attempts": ["a leftover is retried with backoff"],
  "No plugin of the model leaves its link behind and succeeds": [
    "a repeated DEL of a detached sandbox detaches no additional networks",
  ],
  "Elements name their interface, as a property could not know it otherwise": [
    "an element keeps its interface over all attempts",
  ],
};
