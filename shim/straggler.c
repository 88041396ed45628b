/* SPDX-License-Identifier: Apache-2.0
 * What is left running of a delegate whose shim was killed. While a delegate runs, the sandbox's lock
 * file names its process group; only a shim that was killed leaves it there. Its plugin has died with
 * it, but not what that has started: an address plugin may hang on, and allocate when nobody asks for it
 * any more. What a plugin leaves running after it has ended, such as a DHCP client, is not named. */
#include <dirent.h>
#include <sys/syscall.h>
#include "shim.h"

/* Names the caller's process group in the lock file, or none. Where there is no room for that, the group
 * is not ended later. */
void straggler_note(int lock, pid_t group)
{
	char digits[NUMBER_SIZE];
	struct field name = number(digits, group);

	if (ftruncate(lock, 0) || !group)
		return;
	(void)!pwrite(lock, name.data, name.len, 0);
}

/* True when the process has the file as that descriptor. */
static bool has_file(pid_t pid, int fd, const struct stat *wanted)
{
	char path[64];
	struct stat file;

	print(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
	return !stat(path, &file) && file.st_dev == wanted->st_dev && file.st_ino == wanted->st_ino;
}

/* True when stdout of the process is a pipe that nobody reads. */
static bool is_abandoned(pid_t pid)
{
	char path[64];
	struct stat file;
	struct pollfd p = { .fd = -1 };
	bool abandoned;

	print(path, sizeof path, "/proc/%d/fd/1", (int)pid);
	if (!stat(path, &file) && S_ISFIFO(file.st_mode))
		p.fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	abandoned = poll(&p, 1, 0) > 0;
	close(p.fd);
	return abandoned;
}

/* Kills the group's processes that hold the lock file as delegates inherit it; without a group, shims that hold
 * the lock and whose runtime was killed. Each process is held fast by a descriptor before it is looked at, so
 * that no other one can have got its number. */
static void end_holders(int lock, pid_t group)
{
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	struct stat file;
	pid_t pid;
	int fd;

	if (fstat(lock, &file))
		file.st_ino = 0;
	while (processes && (entry = readdir(processes))) {
		pid = field_number(text(entry->d_name));
		fd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
		if (fd < 0)
			continue;
		if (group ? getpgid(pid) == group && has_file(pid, DELEGATE_LOCK, &file)
			  : has_file(pid, HOLDER_LOCK, &file) && is_abandoned(pid))
			syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
		close(fd);
	}
	if (processes)
		closedir(processes);
}

/* Ends what the delegates of a killed shim have left running: the group that the lock file names. */
void stragglers_end(int lock)
{
	char digits[NUMBER_SIZE] = "";
	pid_t group;

	if (pread(lock, digits, sizeof digits - 1, 0) <= 0)
		return;
	group = field_number(text(digits));
	if (group > 1)
		end_holders(lock, group);
}

/* Ends the shim that holds the lock when its runtime was killed: a DEL that hangs, or one that is stopped. */
void abandoned_end(int lock)
{
	end_holders(lock, 0);
}
