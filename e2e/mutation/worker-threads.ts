/** Threads cannot set the umask, which one test varies; Stryker runs tests in threads. */
process.umask = () => 0o022;
