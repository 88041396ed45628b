// SPDX-License-Identifier: Apache-2.0

/*
 * The first process of a PID namespace: waits, and reaps what is left to it. It is the init of the cluster's
 * hosts and the pause process of every pod sandbox. Called with an argument it also ends when its standard
 * input does, so that a host goes away with the process that started it, however that one ended.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void reap(int signal_number) {
	int saved = errno;
	(void)signal_number;
	while (waitpid(-1, NULL, WNOHANG) > 0) {
	}
	errno = saved;
}

static void leave(int signal_number) {
	(void)signal_number;
	_exit(0);
}

static void wait_for_end_of_input(void) {
	char byte;
	ssize_t got;
	do {
		got = read(STDIN_FILENO, &byte, 1);
	} while (got > 0 || (got < 0 && errno == EINTR));
}

int main(int argc, char **argv) {
	struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
	struct sigaction on_stop = {.sa_handler = leave};
	(void)argv;
	sigaction(SIGCHLD, &on_child, NULL);
	sigaction(SIGINT, &on_stop, NULL);
	sigaction(SIGTERM, &on_stop, NULL);
	if (argc > 1) {
		wait_for_end_of_input();
		return 0;
	}
	for (;;) {
		pause();
	}
}
