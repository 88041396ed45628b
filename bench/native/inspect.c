/* SPDX-License-Identifier: Apache-2.0
 * Runs INSPECT_PROGRAM, traced, and appends to the file INSPECT_REPORT for each process that it starts, at its end:
 *   NAME PEAK_RSS_KB ANONYMOUS_KB
 * A process's memory can be read for the last time when it stops at PTRACE_EVENT_EXIT; wait4's ru_maxrss has no
 * anonymous part, and misses processes whose parent does not wait for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *report;

static void report_memory(pid_t pid)
{
	char path[64], line[256], exe[512], *name;
	long tgid = 0, peak = 0, anon = 0;
	ssize_t len;
	FILE *status;

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	if (!(status = fopen(path, "r")))
		return;
	while (fgets(line, sizeof line, status)) {
		sscanf(line, "Tgid: %ld", &tgid);
		sscanf(line, "VmHWM: %ld", &peak);
		sscanf(line, "RssAnon: %ld", &anon);
	}
	fclose(status);
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	if (tgid != pid || (len = readlink(path, exe, sizeof exe - 1)) < 0)
		return;
	exe[len] = '\0';
	name = strrchr(exe, '/');
	fprintf(report, "%s %ld %ld\n", name ? name + 1 : exe, peak, anon);
}

/* The signal to continue a stopped process with: none when tracing itself has stopped it. */
static int signal_for(int status)
{
	int sig = WSTOPSIG(status);

	return status >> 16 || sig == SIGSTOP || sig == SIGTRAP ? 0 : sig;
}

int main(void)
{
	const char *program = getenv("INSPECT_PROGRAM"), *path = getenv("INSPECT_REPORT");
	long options = PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
		       PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	int status, result = 1;
	pid_t child, pid;

	if (!program || !path || !(report = fopen(path, "ae"))) {
		perror("inspect");
		return 2;
	}
	if ((child = fork()) == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	if (waitpid(child, &status, 0) != child || ptrace(PTRACE_SETOPTIONS, child, NULL, options)) {
		perror("inspect");
		return 2;
	}
	ptrace(PTRACE_CONT, child, NULL, NULL);
	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status)) {
			if (pid == child)
				result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
			continue;
		}
		if (status >> 16 == PTRACE_EVENT_EXIT)
			report_memory(pid);
		ptrace(PTRACE_CONT, pid, NULL, (long)signal_for(status));
	}
	fclose(report);
	return result;
}
