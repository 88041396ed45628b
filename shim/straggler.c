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

/* True when the process is of that group and holds the lock file as delegates inherit it. */
static bool is_straggler(pid_t pid, pid_t group, const struct stat *lock)
{
	char path[64];
	struct stat file;

	if (getpgid(pid) != group)
		return false;
	print(path, sizeof path, "/proc/%d/fd/%d", (int)pid, DELEGATE_LOCK);
	return !stat(path, &file) && file.st_dev == lock->st_dev && file.st_ino == lock->st_ino;
}

/* Kills the processes of the group that the lock file names. Each is held fast by a descriptor before
 * it is looked at, so that no other process can have got its number. */
void stragglers_end(int lock)
{
	char digits[NUMBER_SIZE] = "";
	struct dirent *entry;
	struct stat file;
	pid_t group, pid;
	DIR *processes;
	int fd;

	if (pread(lock, digits, sizeof digits - 1, 0) <= 0 || fstat(lock, &file))
		return;
	group = field_number(text(digits));
	processes = group > 1 ? opendir("/proc") : NULL;
	while (processes && (entry = readdir(processes))) {
		pid = field_number(text(entry->d_name));
		fd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
		if (fd < 0)
			continue;
		if (is_straggler(pid, group, &file))
			syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
		close(fd);
	}
	if (processes)
		closedir(processes);
}
