/* SPDX-License-Identifier: Apache-2.0
 * Runs jobs and measures each from its first fork to its last exit, so that what is measured does not
 * depend on the measuring program: starting processes from Node costs milliseconds, and more under load.
 *
 * A job is a row of steps, one after the other, as a runtime runs plugins. Lines on stdin:
 *   step JOB DIR PROGRAM   adds a step: DIR holds `env` (NAME=VALUE, NUL-terminated each) and `stdin`;
 *                          stdout and stderr go to `stdout` and `stderr` there
 *   go                     starts all jobs at once and answers `JOB STATUS MICROSECONDS` for each, then `end MICROSECONDS`,
 *                          which is when it started the first one, by CLOCK_MONOTONIC
 * Every time begins with the first fork of all, so that the longest is that of all jobs together. STATUS is the wait
 * status of the step that failed, else 0; a failed step ends its job. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS 256
#define STEPS 16

struct step {
	char dir[512], program[512];
};
struct job {
	struct step steps[STEPS];
	int count, next;
	pid_t pid;
};
static struct job jobs[JOBS];
static int used;
static int64_t began;

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(2);
}

/* Read before the clock runs: the environment of a step. */
static char **read_env(const char *dir)
{
	static char text[JOBS * STEPS][8192], *vars[JOBS * STEPS][64];
	static int at;
	char path[600];
	ssize_t len;
	int fd, n = 0, own = at++ % (JOBS * STEPS);

	snprintf(path, sizeof path, "%s/env", dir);
	if ((fd = open(path, O_RDONLY)) < 0 || (len = read(fd, text[own], sizeof text[own])) < 0)
		fail(path);
	close(fd);
	for (char *v = text[own]; v < text[own] + len && n < 63; v += strlen(v) + 1)
		vars[own][n++] = v;
	vars[own][n] = NULL;
	return vars[own];
}

static int open_in(const char *dir, const char *name, int flags)
{
	char path[600];
	int fd;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	if ((fd = open(path, flags | O_CLOEXEC, 0600)) < 0)
		fail(path);
	return fd;
}

static void start_step(struct job *job)
{
	struct step *step = &job->steps[job->next++];
	char *argv[] = { step->program, NULL }, **env = read_env(step->dir);
	int in = open_in(step->dir, "stdin", O_RDONLY);
	int out = open_in(step->dir, "stdout", O_WRONLY | O_CREAT | O_TRUNC);
	int err = open_in(step->dir, "stderr", O_WRONLY | O_CREAT | O_TRUNC);

	if (!began)
		began = now_us();
	job->pid = vfork();
	if (job->pid == 0) {
		dup2(in, 0);
		dup2(out, 1);
		dup2(err, 2);
		execve(step->program, argv, env);
		_exit(127);
	}
	close(in);
	close(out);
	close(err);
	if (job->pid < 0)
		fail("vfork");
}

static void go(void)
{
	int running = used, status;

	for (int j = 0; j < used; j++)
		start_step(&jobs[j]);
	while (running) {
		pid_t pid = wait(&status);
		int64_t ended = now_us();

		for (int j = 0; j < used; j++) {
			struct job *job = &jobs[j];

			if (job->pid != pid)
				continue;
			if (!status && job->next < job->count) {
				start_step(job);
				break;
			}
			printf("%d %d %lld\n", j, status, (long long)(ended - began));
			running--;
		}
	}
	printf("end %lld\n", (long long)began);
	fflush(stdout);
	memset(jobs, 0, sizeof jobs);
	used = 0;
	began = 0;
}

int main(void)
{
	char line[2048], dir[512], program[512];
	int j;

	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "go\n")) {
			go();
		} else if (sscanf(line, "step %d %511s %511s", &j, dir, program) == 3 && j >= 0 && j < JOBS &&
			   jobs[j].count < STEPS) {
			struct step *step = &jobs[j].steps[jobs[j].count++];

			strcpy(step->dir, dir);
			strcpy(step->program, program);
			if (j >= used)
				used = j + 1;
		} else {
			fprintf(stderr, "runner: cannot do: %s", line);
			return 2;
		}
	}
	return 0;
}
