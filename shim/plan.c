/* SPDX-License-Identifier: Apache-2.0
 * Teardown plans: a complete DEL with no engine. They are written before anything is attached. */
#include "shim.h"

#define PLAN_CAP (64u << 20)

/* As zlib's: the polynomial of IEEE 802.3, reflected. */
static uint32_t crc32(const char *bytes, size_t len)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < len; i++) {
		crc ^= (unsigned char)bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* Appends the end of a plan that holds these bytes and steps. */
static void add_end(struct buf *b, const char *plan, size_t len, int steps)
{
	char digits[24], crc[9];

	snprintf(crc, sizeof crc, "%08x", crc32(plan, len));
	frame_write(b, FRAME_PLAN_END, (struct field[]){ number(digits, steps), text(crc) }, 2);
}

/* Checks a whole plan, before any of it is carried out. Returns what is wrong with it, or NULL, and
 * where its first step is. Each plan has one spelling, so its ends are compared, not parsed. */
const char *plan_problem(struct field file, const char *id, const char *ifname, size_t *first)
{
	static struct buf ends;
	struct field name[] = { text(PROTOCOL_VERSION), text(id), text(ifname) };
	struct frame f;
	size_t at;
	ssize_t n;
	int steps = 0;

	ends.len = 0;
	frame_write(&ends, FRAME_PLAN, name, 3);
	*first = at = ends.len;
	if (file.len < at || memcmp(file.data, ends.data, at))
		return "it is no plan of this version for this attachment";
	for (; (n = frame_parse(file.data + at, file.len - at, &f)) > 0 && is_exec(&f); at += (size_t)n)
		steps++;
	ends.len = 0;
	add_end(&ends, file.data, at, steps);
	if (file.len - at != ends.len || memcmp(file.data + at, ends.data, ends.len))
		return "it is cut short or altered";
	return NULL;
}

/* Runs one step. Returns true when it is done; else appends why not. Delegates say it on stdout. */
static int run_step(struct frame *f, struct buf *why_not)
{
	static struct exec_result r;

	for (int i = ENV; i < f->count; i++)
		if (!strncmp(f->fields[i].data, "CNI_NETNS=", 10))
			f->fields[i--] = f->fields[--f->count]; /* today's is used, see run_steps */
	exec_order(f, &r);
	if (!strcmp(r.outcome, "exited") && !r.code)
		return 1;
	buf_print(why_not, "%s%s: %.300s", why_not->len ? "; " : "", f->fields[TYPE].data,
		  r.message.len ? r.message.data : r.said[1].len ? r.said[1].data :
		  r.said[2].len ? r.said[2].data : "it failed and said nothing");
	return 0;
}

/* True when a step of the group is among those that are kept: a chain stops at its first error. */
static int holds_group(const struct buf *kept, size_t at, struct field group)
{
	struct frame f;

	for (ssize_t n; (n = frame_parse(kept->data + at, kept->len - at, &f)) > 0; at += (size_t)n)
		if (f.fields[GROUP].len == group.len && !memcmp(f.fields[GROUP].data, group.data, group.len))
			return 1;
	return 0;
}

/* Writes the plan anew. A failure here leaves the old one, which then only repeats what succeeded:
 * DELs can be repeated. */
static void save(const char *path, const struct buf *plan)
{
	static struct buf temp;
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
	int fd = open(buf_print(&temp, "%s.tmp", path), flags, 0600);

	if (fd < 0)
		return;
	if (write_all(fd, plan->data, plan->len) || fsync(fd) || close(fd) || rename(temp.data, path))
		unlink(temp.data);
}

/* Carries out a plan; `kept` gets a plan of what could not be. Returns how many steps that are.
 * Delegates get the namespace of today's call, or none: some fail or worse on a stale path. */
static int run_steps(const struct buf *plan, size_t first, struct buf *kept, struct buf *why_not)
{
	struct frame f;
	size_t at = first;
	ssize_t n;
	int count = 0;

	if (netns_open(setting("CNI_NETNS", "")) < 0)
		putenv("CNI_NETNS=");
	buf_add(kept, plan->data, first);
	for (; (n = frame_parse(plan->data + at, plan->len - at, &f)) > 0 && is_exec(&f); at += (size_t)n) {
		if (!holds_group(kept, first, f.fields[GROUP]) && run_step(&f, why_not))
			continue;
		buf_add(kept, plan->data + at, (size_t)n);
		count++;
	}
	add_end(kept, kept->data, kept->len, count);
	return count;
}

/* Carries out what the call's plan holds; one that does not exist is of no steps. Returns 0 when
 * nothing is attached any more, else the CNI error code to report; `why_not` tells. */
int plan_replay(struct buf *why_not)
{
	static struct buf path, record, plan, kept;
	const char *dir = setting("PLEXUS_STATE_DIR", STATE_DIR), *problem;
	const char *id = setting("CNI_CONTAINERID", ""), *ifname = setting("CNI_IFNAME", "");
	size_t first;
	int fd;

	buf_print(&path, "%s/%s@%s.teardown", dir, id, ifname);
	buf_print(&record, "%s/%s@%s.json", dir, id, ifname);
	fd = open(path.data, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || read_all(fd, &plan, PLAN_CAP, -1))
		return buf_print(why_not, "cannot read %s: %s", path.data, why(errno)), 5;
	close(fd);
	problem = plan_problem(CONTENT(plan), id, ifname, &first);
	if (problem)
		return buf_print(why_not, "teardown plan %s is damaged: %s; it was kept: start plexusd to "
				 "detach from the record, or detach by hand", path.data, problem), 6;
	if (run_steps(&plan, first, &kept, why_not)) {
		save(path.data, &kept);
		return 102;
	}
	if ((unlink(record.data) && errno != ENOENT) || unlink(path.data))
		return buf_print(why_not, "all detached, but cannot remove %s: %s", path.data, why(errno)), 5;
	return 0;
}
