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

/* Checks a whole plan, before any of it is carried out. Returns what is wrong with it, or NULL, and
 * where its first step is. Each plan has one spelling, so its ends are compared, not parsed. */
const char *plan_problem(struct field file, const char *id, const char *ifname, size_t *first)
{
	static struct buf ends;
	struct field name[] = { text(PROTOCOL_VERSION), text(id), text(ifname) };
	char digits[24], crc[9];
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
	snprintf(crc, sizeof crc, "%08x", crc32(file.data, at));
	frame_write(&ends, FRAME_PLAN_END, (struct field[]){ number(digits, steps), text(crc) }, 2);
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

static int same(struct field a, struct field b)
{
	return a.len == b.len && !memcmp(a.data, b.data, a.len);
}

/* Carries out a plan. The steps of a group follow one another: after a failure the rest of its group
 * is passed over, other groups go on. Delegates get the namespace of today's call, or none: some
 * fail or worse on a stale path. */
static void run_steps(const struct buf *plan, size_t first, struct buf *why_not)
{
	struct field failed = { "", SIZE_MAX };
	struct frame f;
	size_t at = first;

	if (netns_open(setting("CNI_NETNS", "")) < 0)
		putenv("CNI_NETNS=");
	for (ssize_t n; (n = frame_parse(plan->data + at, plan->len - at, &f)) > 0 && is_exec(&f); at += (size_t)n)
		if (!same(f.fields[GROUP], failed) && !run_step(&f, why_not))
			failed = f.fields[GROUP];
}

/* Carries out what the call's plan holds; one that does not exist is of no steps. Returns 0 when
 * nothing is attached any more, else the CNI error code to report; `why_not` tells. A plan of which
 * a step failed is left as it is: DELs can be repeated. */
int plan_replay(struct buf *why_not)
{
	static struct buf path, record, plan;
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
	run_steps(&plan, first, why_not);
	if (why_not->len)
		return 102;
	if ((unlink(record.data) && errno != ENOENT) || unlink(path.data))
		return buf_print(why_not, "all detached, but cannot remove %s: %s", path.data, why(errno)), 5;
	return 0;
}
