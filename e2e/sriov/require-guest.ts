/** Tests of this project change the machine's own network: they run in the guest alone, which e2e/sriov/main.ts boots. */
if (process.env.PLEXUS_GUEST !== "yes")
  throw new Error("these tests need their guest: run `make e2e SUITE=sriov`");
